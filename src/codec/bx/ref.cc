// The oracle of bx.
#include "codec/bx/bx.h"
#include "codec/bx/plan.h"

namespace quire::codec::bx {
namespace {

uint8_t exponent(uint16_t word) {
    return static_cast<uint8_t>(word >> 7);
}
uint8_t sign_and_mantissa(uint16_t word) {
    return static_cast<uint8_t>((word >> 8 & 0x80) | (word & 0x7f));
}
uint16_t word_of(uint8_t rest, uint8_t exponent) {
    return static_cast<uint16_t>((rest & 0x80) << 8 | exponent << 7 | (rest & 0x7f));
}

// A plane of 2-bit codes that is written from its first one on; REQUIRES zeros there.
class Codes {
 public:
    explicit Codes(uint8_t* plane) : plane_(plane) {}
    void add(uint32_t code) {
        plane_[n_ / 4] |= static_cast<uint8_t>(code << 2 * (n_ % 4));
        ++n_;
    }

 private:
    uint8_t* plane_;
    size_t n_ = 0;
};

// Nine ranks; kRanks for any other exponent.
uint32_t rank_of(const SideHeader& header, uint8_t exponent) {
    uint32_t rank = 0;
    while (rank < kRanks && exponent_of(header, rank) != exponent) ++rank;
    return rank;
}

// Returns the side's bytes.
size_t pack_side(const uint16_t* words, size_t side, std::byte* header_at, uint8_t* out) {
    uint32_t counts[256] = {};
    for (size_t i = 0; i < side; ++i) ++counts[exponent(words[i])];
    Planes planes;
    const SideHeader header = choose(counts, side, &planes);
    store_header(header, header_at);
    if (header.raw) {
        std::memcpy(out, words, 2 * side);
        return 2 * side;
    }
    std::memset(out, 0, planes.end(side));
    Codes level1(out + planes.level1(side)), level2(out + planes.level2(side)),
        level3(out + planes.level3(side));
    uint8_t* escape = out + planes.escapes_at(side);
    for (size_t i = 0; i < side; ++i) {
        out[i] = sign_and_mantissa(words[i]);
        const uint32_t rank = rank_of(header, exponent(words[i]));
        level1.add(std::min(rank, 3u));
        if (rank >= 3) level2.add(std::min(rank - 3, 3u));
        if (rank >= 6) level3.add(rank - 6);
        if (rank == kRanks) *escape++ = exponent(words[i]);
    }
    return planes.end(side);
}

// Numbers of a plane whose code is 3.
size_t count_later(const uint8_t* plane, size_t numbers) {
    size_t n = 0;
    for (size_t i = 0; i < numbers; ++i) n += code_at(plane, i) == 3;
    return n;
}

// Returns the side's bytes; 0 when they would be more than `room`.
size_t unpack_side(const SideHeader& header, const uint8_t* in, size_t room, size_t side,
                   uint16_t* words) {
    if (header.raw) {
        if (room < 2 * side) return 0;
        std::memcpy(words, in, 2 * side);
        return 2 * side;
    }
    Planes planes;
    if (planes.end(side) > room) return 0;
    planes.later1 = count_later(in + planes.level1(side), side);
    if (planes.end(side) > room) return 0;
    planes.later2 = count_later(in + planes.level2(side), planes.later1);
    if (planes.end(side) > room) return 0;
    planes.escapes = count_later(in + planes.level3(side), planes.later2);
    if (planes.end(side) > room) return 0;

    size_t at2 = 0, at3 = 0;
    const uint8_t* escape = in + planes.escapes_at(side);
    for (size_t i = 0; i < side; ++i) {
        uint32_t rank = code_at(in + planes.level1(side), i);
        if (rank == 3) rank += code_at(in + planes.level2(side), at2++);
        if (rank == 6) rank += code_at(in + planes.level3(side), at3++);
        words[i] = word_of(in[i], rank == kRanks ? *escape++ : exponent_of(header, rank));
    }
    return planes.end(side);
}

}  // namespace

void ref_pack(const uint16_t* words, size_t side, std::byte* page) {
    std::memset(page, 0, page_bound(side));
    pack_page(words, side, page, pack_side);
}

void ref_unpack(const std::byte* page, size_t side, uint16_t* words) {
    unpack_page(page, side, words, unpack_side);
}

}  // namespace quire::codec::bx
