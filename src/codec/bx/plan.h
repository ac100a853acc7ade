// What the versions of bx share: which exponents get which code, and where a side's planes lie.
// Always inlined: files of one instruction set include it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/bx/bx.h"

namespace quire::codec::bx {

// A side's planes, as offsets from its first byte, and how many numbers reach each level.
struct Planes {
    size_t later1 = 0;  // numbers with code 3 in level 1, and so in level 2
    size_t later2 = 0;
    size_t escapes = 0;

    static constexpr size_t codes(size_t numbers) { return (numbers + 3) / 4; }
    constexpr size_t level1(size_t side) const { return side; }
    constexpr size_t level2(size_t side) const { return side + side / 4; }
    constexpr size_t level3(size_t side) const { return level2(side) + codes(later1); }
    constexpr size_t escapes_at(size_t side) const { return level3(side) + codes(later2); }
    constexpr size_t end(size_t side) const { return escapes_at(side) + escapes; }
};

// The window of 16 exponents that holds most numbers, the lowest of equals; in it the nine most
// frequent, in order, the lower exponent first of equals. `counts` are those of all exponents.
[[gnu::always_inline]] inline SideHeader choose(const uint32_t* counts, size_t side,
                                                Planes* planes) {
    SideHeader header;
    // Windows below the first one that holds a number hold none, and those beyond the lowest one
    // that holds the last number hold no more than it does.
    uint32_t lowest = 0, highest = 255;
    while (lowest < highest && counts[lowest] == 0) ++lowest;
    while (lowest < highest && counts[highest] == 0) --highest;
    const uint32_t first = std::min(lowest - std::min(lowest, kWindow - 1), 256 - kWindow);
    uint32_t sum = 0;
    for (uint32_t e = first; e < first + kWindow; ++e) sum += counts[e];
    uint32_t best = sum;
    header.base = static_cast<uint8_t>(first);
    for (uint32_t base = first + 1; base + kWindow <= highest + 1; ++base) {
        sum += counts[base + kWindow - 1] - counts[base - 1];
        if (sum <= best) continue;
        best = sum;
        header.base = static_cast<uint8_t>(base);
    }
    // A count and, to break ties, how low the exponent is: keys that all differ.
    uint32_t keys[kWindow];
    for (uint32_t i = 0; i < kWindow; ++i)
        keys[i] = counts[header.base + i] * kWindow + (kWindow - 1 - i);
    uint32_t left = static_cast<uint32_t>(side);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
        uint32_t* top = keys;
        for (uint32_t i = 1; i < kWindow; ++i)
            if (keys[i] > *top) top = keys + i;
        header.window[rank] = static_cast<uint8_t>(kWindow - 1 - *top % kWindow);
        left -= *top / kWindow;
        *top = 0;
        if (rank == 2) planes->later1 = left;
        if (rank == 5) planes->later2 = left;
    }
    planes->escapes = left;
    header.raw = planes->end(side) >= 2 * side;
    return header;
}

// Six bytes: base, then ten nibbles, low first: the ranks' exponents, and 1 for words as they are.
[[gnu::always_inline]] inline void store_header(const SideHeader& h, std::byte* out) {
    out[0] = std::byte{h.base};
    uint8_t nibbles[kRanks + 1];
    for (uint32_t r = 0; r < kRanks; ++r) nibbles[r] = h.raw ? 0 : h.window[r];
    if (h.raw) out[0] = std::byte{0};
    nibbles[kRanks] = h.raw ? 1 : 0;
    for (uint32_t i = 0; i < 5; ++i)
        out[1 + i] = static_cast<std::byte>(nibbles[2 * i] | nibbles[2 * i + 1] << 4);
}

[[gnu::always_inline]] inline SideHeader load_header(const std::byte* in) {
    SideHeader h;
    h.base = static_cast<uint8_t>(in[0]);
    uint8_t nibbles[kRanks + 1];
    for (uint32_t i = 0; i < 5; ++i) {
        nibbles[2 * i] = static_cast<uint8_t>(in[1 + i] & std::byte{15});
        nibbles[2 * i + 1] = static_cast<uint8_t>(in[1 + i] >> 4);
    }
    for (uint32_t r = 0; r < kRanks; ++r) h.window[r] = nibbles[r];
    h.raw = nibbles[kRanks] != 0;
    return h;
}

// The exponent of a rank; wraps, so that any header means something.
[[gnu::always_inline]] inline uint8_t exponent_of(const SideHeader& h, uint32_t rank) {
    return static_cast<uint8_t>(h.base + h.window[rank]);
}

[[gnu::always_inline]] inline uint32_t code_at(const uint8_t* plane, size_t i) {
    return plane[i / 4] >> (2 * (i % 4)) & 3;
}

// How often each exponent occurs; side is a multiple of 8. Four tables, so that equal neighbours do
// not wait for each other.
[[gnu::always_inline]] inline void tally(const uint8_t* exponents, size_t side, uint32_t* counts) {
    uint32_t tables[4][256] = {};
    for (size_t i = 0; i < side; i += 8) {
        uint64_t eight;
        std::memcpy(&eight, exponents + i, 8);
        for (int t = 0; t < 8; ++t, eight >>= 8) ++tables[t % 4][eight & 0xff];
    }
    for (size_t e = 0; e < 256; ++e)
        counts[e] = tables[0][e] + tables[1][e] + tables[2][e] + tables[3][e];
}

// Numbers of a plane whose code is 3.
[[gnu::always_inline]] inline size_t count_later(const uint8_t* plane, size_t numbers) {
    size_t n = 0, i = 0;
    for (; i + 32 <= numbers; i += 32) {
        uint64_t codes;
        std::memcpy(&codes, plane + i / 4, 8);
        n += static_cast<size_t>(std::popcount(codes & codes >> 1 & 0x5555555555555555u));
    }
    for (; i < numbers; ++i) n += code_at(plane, i) == 3;
    return n;
}

// Frames a page around the sides that an instruction set codes: pack_side(words, side, header, out)
// returns a side's bytes.
template <class PackSide>
[[gnu::always_inline]] inline void pack_page(const uint16_t* words, size_t side, std::byte* page,
                                             const PackSide& pack_side) {
    auto* out = reinterpret_cast<uint8_t*>(page);
    size_t at = kPageHeaderBytes;
    for (size_t s = 0; s < 2; ++s)
        at += pack_side(words + s * side, side, page + kSideHeaderAt + s * kSideHeaderBytes,
                        out + at);
    std::memset(page + at, 0, page_bound(side) - at);
    const auto bytes = static_cast<uint32_t>(at);
    std::memcpy(page, &bytes, sizeof bytes);
}

// And back: unpack_side(header, in, room, side, words) returns 0 when the side would be more than
// `room` bytes; it and what follows are zero then.
template <class UnpackSide>
[[gnu::always_inline]] inline void unpack_page(const std::byte* page, size_t side, uint16_t* words,
                                               const UnpackSide& unpack_side) {
    const auto* in = reinterpret_cast<const uint8_t*>(page);
    size_t at = kPageHeaderBytes;
    for (size_t s = 0; s < 2; ++s) {
        const SideHeader header = load_header(page + kSideHeaderAt + s * kSideHeaderBytes);
        const size_t bytes =
            at == 0 ? 0 : unpack_side(header, in + at, page_bound(side) - at, side, words);
        if (bytes == 0) std::memset(words, 0, 2 * side);
        at = bytes == 0 ? 0 : at + bytes;
        words += side;
    }
}

}  // namespace quire::codec::bx
