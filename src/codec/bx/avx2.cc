// bx with AVX2: planes level by level, 32 numbers at a time. Numbers that go on to the next level
// are compressed to the front of a list of bytes, and expanded from it.
#include <bit>

#include <immintrin.h>

#include "base/prefetch.h"
#include "codec/bx/bx.h"
#include "codec/bx/byte_moves.h"
#include "codec/bx/plan.h"

namespace quire::codec::bx {
namespace {

constexpr size_t kSlack = 64;  // lists are read and written in pieces
constexpr size_t kListBytes = kMaxSideNumbers + kSlack;

__m256i load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
void store(void* p, __m256i x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), x);
}
__m128i move_bytes(const std::array<uint8_t, 8>& moves, __m128i x) {
    return _mm_shuffle_epi8(x, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(moves.data())));
}

// Words to bytes, order kept; REQUIRES values below 256.
__m256i bytes_of(__m256i lo, __m256i hi) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(lo, hi), 0b11011000);
}

// Sign and mantissa to `rest`, exponents to `exponents`.
void split(const uint16_t* words, size_t side, uint8_t* rest, uint8_t* exponents) {
    const __m256i low7 = _mm256_set1_epi16(0x7f), sign = _mm256_set1_epi16(0x80),
                  byte = _mm256_set1_epi16(0xff);
    const auto rest_of = [&](__m256i w) {
        return _mm256_or_si256(_mm256_and_si256(w, low7),
                               _mm256_and_si256(_mm256_srli_epi16(w, 8), sign));
    };
    const auto exponent_of = [&](__m256i w) {
        return _mm256_and_si256(_mm256_srli_epi16(w, 7), byte);
    };
    for (size_t i = 0; i < side; i += 32) {
        prefetch_l1(words + i + side);  // the next side, most often
        const __m256i a = load(words + i), b = load(words + i + 16);
        store(rest + i, bytes_of(rest_of(a), rest_of(b)));
        store(exponents + i, bytes_of(exponent_of(a), exponent_of(b)));
    }
}

// Codes of 32 numbers, each below 4, to 8 bytes.
uint64_t pack_codes(__m256i codes) {
    const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401));
    const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
    const __m256i pick =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i low = _mm256_shuffle_epi8(fours, pick);
    const auto a = static_cast<uint32_t>(_mm256_extract_epi32(low, 0));
    const auto b = static_cast<uint32_t>(_mm256_extract_epi32(low, 4));
    return a | uint64_t{b} << 32;
}

// Ranks become codes of one level in `plane`; those that go on, less 3, the next level's ranks in
// `later`. Reads and writes up to kSlack bytes more of the lists. Returns how many go on.
size_t write_level(const uint8_t* ranks, size_t n, uint8_t* plane, uint8_t* later) {
    const __m256i three = _mm256_set1_epi8(3);
    uint8_t* next = later;
    for (size_t i = 0; i < n; i += 32) {
        const __m256i r = load(ranks + i);
        const __m256i codes = _mm256_min_epu8(r, three);
        uint64_t packed = pack_codes(codes);
        const size_t left = n - i;
        if (left < 32) packed &= (uint64_t{1} << 2 * left) - 1;
        std::memcpy(plane + i / 4, &packed, left >= 32 ? 8 : Planes::codes(left));
        auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(codes, three)));
        if (left < 32) mask &= (1u << left) - 1;
        const __m256i lower = _mm256_subs_epu8(r, three);
        const __m128i halves[2] = {_mm256_castsi256_si128(lower),
                                   _mm256_extracti128_si256(lower, 1)};
        for (int g = 0; g < 4; ++g, mask >>= 8) {
            const __m128i eight = g % 2 == 0 ? halves[g / 2] : _mm_srli_si128(halves[g / 2], 8);
            _mm_storel_epi64(reinterpret_cast<__m128i*>(next),
                             move_bytes(kCompress[mask & 0xff], eight));
            next += std::popcount(mask & 0xff);
        }
    }
    return static_cast<size_t>(next - later);
}

// Exponents become ranks, kRanks for those without one, in place; these go to `escapes`.
void rank(const SideHeader& header, size_t side, uint8_t* exponents, uint8_t* escapes) {
    alignas(16) uint8_t table[kWindow];
    std::memset(table, kRanks, sizeof table);
    for (uint32_t r = 0; r < kRanks; ++r) table[header.window[r]] = static_cast<uint8_t>(r);
    const __m256i ranks =
        _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
    const __m256i base = _mm256_set1_epi8(static_cast<char>(header.base)),
                  last = _mm256_set1_epi8(kWindow - 1), none = _mm256_set1_epi8(kRanks);
    for (size_t i = 0; i < side; i += 32) {
        const __m256i e = load(exponents + i);
        const __m256i at = _mm256_sub_epi8(e, base);
        const __m256i inside = _mm256_cmpeq_epi8(_mm256_min_epu8(at, last), at);
        const __m256i found = _mm256_blendv_epi8(none, _mm256_shuffle_epi8(ranks, at), inside);
        auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(found, none)));
        for (; mask != 0; mask &= mask - 1) *escapes++ = exponents[i + std::countr_zero(mask)];
        store(exponents + i, found);
    }
}

size_t pack_side(const uint16_t* words, size_t side, std::byte* header_at, uint8_t* out) {
    alignas(32) uint8_t exponents[kListBytes];
    alignas(32) uint8_t rest[kMaxSideNumbers];
    alignas(32) uint8_t later[kListBytes];
    split(words, side, rest, exponents);
    uint32_t counts[256];
    tally(exponents, side, counts);
    Planes planes;
    const SideHeader header = choose(counts, side, &planes);
    store_header(header, header_at);
    if (header.raw) {
        std::memcpy(out, words, 2 * side);
        return 2 * side;
    }
    std::memcpy(out, rest, side);
    rank(header, side, exponents, out + planes.escapes_at(side));
    write_level(exponents, side, out + planes.level1(side), later);
    // The list of one level is not read any more when the next one's is written.
    write_level(later, planes.later1, out + planes.level2(side), exponents);
    write_level(exponents, planes.later2, out + planes.level3(side), later);
    return planes.end(side);
}

// The exponents of one level: `next` holds those of the codes 3, in order.
class Level {
 public:
    Level(const SideHeader& header, uint32_t first_rank, const uint8_t* next) : next_(next) {
        alignas(16) uint8_t table[16] = {};
        for (uint32_t c = 0; c < 3; ++c) {
            symbols_[c] = exponent_of(header, first_rank + c);
            table[c] = table[4 * c] = symbols_[c];
        }
        table[0] = symbols_[0];
        table_ =
            _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
    }

    // Of 32 codes, eight bytes of them. Reads up to 8 bytes beyond the list.
    __m256i read(const uint8_t* codes) {
        uint64_t eight;
        std::memcpy(&eight, codes, 8);
        // Byte i / 4 to lane i, and of it the two bits of code i, at bits 2 (i % 4).
        const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4,
                                                4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
        const __m256i own = _mm256_set1_epi32(static_cast<int>(0xc0300c03));
        const __m256i x = _mm256_and_si256(
            _mm256_shuffle_epi8(_mm256_set1_epi64x(static_cast<int64_t>(eight)), spread), own);
        // 0 to 3, or four times that: what table_ is indexed by.
        const __m256i at =
            _mm256_and_si256(_mm256_or_si256(x, _mm256_srli_epi16(x, 4)), _mm256_set1_epi8(15));
        const __m256i known = _mm256_shuffle_epi8(table_, at);
        const __m256i later = _mm256_cmpeq_epi8(x, own);
        auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(later));
        if (mask == 0) return known;
        __m128i parts[4];
        for (__m128i& part : parts) {
            part = move_bytes(kExpand[mask & 0xff],
                              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(next_)));
            next_ += std::popcount(mask & 0xff);
            mask >>= 8;
        }
        const __m256i found = _mm256_set_m128i(_mm_unpacklo_epi64(parts[2], parts[3]),
                                               _mm_unpacklo_epi64(parts[0], parts[1]));
        return _mm256_blendv_epi8(known, found, later);
    }

    uint8_t read_one(uint32_t code) { return code == 3 ? *next_++ : symbols_[code]; }

 private:
    __m256i table_;
    uint8_t symbols_[3];
    const uint8_t* next_;
};

void read_level(Level level, const uint8_t* plane, size_t numbers, uint8_t* exponents) {
    size_t i = 0;
    for (; i + 32 <= numbers; i += 32) store(exponents + i, level.read(plane + i / 4));
    for (; i < numbers; ++i) exponents[i] = level.read_one(code_at(plane, i));
}

void join(__m256i exponents, const uint8_t* rest, uint16_t* words) {
    const __m256i low7 = _mm256_set1_epi16(0x7f), sign = _mm256_set1_epi16(0x80);
    const __m128i halves[2] = {_mm256_castsi256_si128(exponents),
                               _mm256_extracti128_si256(exponents, 1)};
    for (int h = 0; h < 2; ++h) {
        const __m256i e = _mm256_slli_epi16(_mm256_cvtepu8_epi16(halves[h]), 7);
        const __m256i r =
            _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rest + 16 * h)));
        const __m256i s = _mm256_slli_epi16(_mm256_and_si256(r, sign), 8);
        store(words + 16 * h, _mm256_or_si256(_mm256_or_si256(e, s), _mm256_and_si256(r, low7)));
    }
}

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

    alignas(32) uint8_t list3[kListBytes];
    alignas(32) uint8_t list2[kListBytes];
    // Escapes may end with the page, where lists are read beyond their end.
    uint8_t* escapes = list2;
    std::memcpy(escapes, in + planes.escapes_at(side), planes.escapes);
    std::memset(escapes + planes.escapes, 0, 8);
    read_level({header, 6, escapes}, in + planes.level3(side), planes.later2, list3);
    std::memset(list3 + planes.later2, 0, 8);
    read_level({header, 3, list3}, in + planes.level2(side), planes.later1, list2);
    std::memset(list2 + planes.later1, 0, 8);
    Level first(header, 0, list2);
    for (size_t i = 0; i < side; i += 32)
        join(first.read(in + planes.level1(side) + i / 4), in + i, words + i);
    return planes.end(side);
}

}  // namespace

void avx2_pack(const uint16_t* words, size_t side, std::byte* page) {
    pack_page(words, side, page, pack_side);
}

void avx2_unpack(const std::byte* page, size_t side, uint16_t* words) {
    unpack_page(page, side, words, unpack_side);
}

}  // namespace quire::codec::bx
