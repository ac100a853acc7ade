// bx with AVX-512 (VBMI and VBMI2): planes level by level, 64 numbers at a time; one instruction
// compresses the numbers that go on to the next level, another expands them again.
#include <bit>

#include <immintrin.h>

#include "base/prefetch.h"
#include "codec/bx/bx.h"
#include "codec/bx/plan.h"

namespace quire::codec::bx {
namespace {

constexpr size_t kSlack = 64;  // lists are read and written in pieces
constexpr size_t kListBytes = kMaxSideNumbers + kSlack;

__m512i load(const void* p) {
    return _mm512_loadu_si512(p);
}
void store(void* p, __m512i x) {
    _mm512_storeu_si512(p, x);
}
// The first n of 64.
__mmask64 first(size_t n) {
    return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
}

// Sign and mantissa to `rest`, exponents to `exponents`.
void split(const uint16_t* words, size_t side, uint8_t* rest, uint8_t* exponents) {
    // The low bytes of two vectors of words.
    alignas(64) uint8_t even[64];
    for (int i = 0; i < 64; ++i) even[i] = static_cast<uint8_t>(2 * i);
    const __m512i low_bytes = load(even);
    const __m512i low7 = _mm512_set1_epi16(0x7f), sign = _mm512_set1_epi16(0x80);
    const auto rest_of = [&](__m512i w) {
        return _mm512_or_si512(_mm512_and_si512(w, low7),
                               _mm512_and_si512(_mm512_srli_epi16(w, 8), sign));
    };
    for (size_t i = 0; i < side; i += 64) {
        prefetch_l1(words + i + side);  // the next side, most often
        prefetch_l1(words + i + side + 32);
        const __m512i a = load(words + i), b = load(words + i + 32);
        store(rest + i, _mm512_permutex2var_epi8(rest_of(a), low_bytes, rest_of(b)));
        store(exponents + i, _mm512_permutex2var_epi8(_mm512_srli_epi16(a, 7), low_bytes,
                                                      _mm512_srli_epi16(b, 7)));
    }
}

// Ranks become codes of one level in `plane`; those that go on, less 3, the next level's ranks in
// `later`. Reads and writes up to kSlack bytes more of the lists. Returns how many go on.
size_t write_level(const uint8_t* ranks, size_t n, uint8_t* plane, uint8_t* later) {
    const __m512i three = _mm512_set1_epi8(3);
    uint8_t* next = later;
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 there = first(n - i);
        const __m512i r = _mm512_maskz_loadu_epi8(there, ranks + i);
        const __m512i codes = _mm512_min_epu8(r, three);
        const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x0401));
        const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x00100001));
        const auto bytes = static_cast<uint32_t>(Planes::codes(n - i < 64 ? n - i : 64));
        _mm_mask_storeu_epi8(plane + i / 4, static_cast<__mmask16>((1u << bytes) - 1),
                             _mm512_cvtepi32_epi8(fours));
        const __mmask64 on = _mm512_mask_cmpeq_epi8_mask(there, codes, three);
        store(next, _mm512_maskz_compress_epi8(on, _mm512_subs_epu8(r, three)));
        next += std::popcount(on);
    }
    return static_cast<size_t>(next - later);
}

// Exponents become ranks, kRanks for those without one, in place; these go to `escapes`.
void rank(const SideHeader& header, size_t side, uint8_t* exponents, uint8_t* escapes) {
    alignas(16) uint8_t table[kWindow];
    std::memset(table, kRanks, sizeof table);
    for (uint32_t r = 0; r < kRanks; ++r) table[header.window[r]] = static_cast<uint8_t>(r);
    const __m512i ranks =
        _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
    const __m512i base = _mm512_set1_epi8(static_cast<char>(header.base)),
                  window = _mm512_set1_epi8(kWindow), none = _mm512_set1_epi8(kRanks);
    for (size_t i = 0; i < side; i += 64) {
        const __m512i e = load(exponents + i);
        const __m512i at = _mm512_sub_epi8(e, base);
        const __mmask64 inside = _mm512_cmplt_epu8_mask(at, window);
        const __m512i found = _mm512_mask_shuffle_epi8(none, inside, ranks, at);
        const __mmask64 escaped = _mm512_cmpeq_epi8_mask(found, none);
        if (escaped != 0) {
            _mm512_mask_compressstoreu_epi8(escapes, escaped, e);
            escapes += std::popcount(escaped);
        }
        store(exponents + i, found);
    }
}

size_t pack_side(const uint16_t* words, size_t side, std::byte* header_at, uint8_t* out) {
    alignas(64) uint8_t exponents[kListBytes];
    alignas(64) uint8_t rest[kMaxSideNumbers];
    alignas(64) uint8_t later[kListBytes];
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

// The exponents of one level: `next` holds those of the codes 3, in order, and kSlack bytes more.
class Level {
 public:
    Level(const SideHeader& header, uint32_t first_rank, const uint8_t* next) : next_(next) {
        alignas(16) uint8_t table[16] = {};
        for (uint32_t c = 0; c < 3; ++c) table[c] = exponent_of(header, first_rank + c);
        table_ = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
    }

    // Of 64 codes, those of `there`.
    __m512i read(__m128i codes, __mmask64 there) {
        // Two bytes to each quarter of a vector's quarters, and their eight codes to bytes.
        const __m512i shifts = _mm512_set1_epi64(0x0e0c0a0806040200);
        const __m512i x = _mm512_and_si512(
            _mm512_multishift_epi64_epi8(shifts, _mm512_cvtepu16_epi64(codes)),
            _mm512_set1_epi8(3));
        const __m512i known = _mm512_shuffle_epi8(table_, x);
        const __mmask64 on = _mm512_mask_cmpeq_epi8_mask(there, x, _mm512_set1_epi8(3));
        const __m512i found = _mm512_mask_expand_epi8(known, on, load(next_));
        next_ += std::popcount(on);
        return found;
    }

 private:
    __m512i table_;
    const uint8_t* next_;
};

__m128i load_codes(const uint8_t* plane, size_t numbers) {
    const auto bytes = static_cast<uint32_t>(Planes::codes(numbers < 64 ? numbers : 64));
    return _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << bytes) - 1), plane);
}

// Writes up to kSlack bytes more of the list.
void read_level(Level level, const uint8_t* plane, size_t numbers, uint8_t* exponents) {
    for (size_t i = 0; i < numbers; i += 64) {
        const size_t left = numbers - i;
        store(exponents + i, level.read(load_codes(plane + i / 4, left), first(left)));
    }
}

void join(__m512i exponents, const uint8_t* rest, uint16_t* words) {
    const __m512i low7 = _mm512_set1_epi16(0x7f), sign = _mm512_set1_epi16(0x80);
    const __m256i halves[2] = {_mm512_castsi512_si256(exponents),
                               _mm512_extracti64x4_epi64(exponents, 1)};
    for (int h = 0; h < 2; ++h) {
        const __m512i e = _mm512_slli_epi16(_mm512_cvtepu8_epi16(halves[h]), 7);
        const __m512i r = _mm512_cvtepu8_epi16(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rest + 32 * h)));
        const __m512i s = _mm512_slli_epi16(_mm512_and_si512(r, sign), 8);
        store(words + 32 * h, _mm512_or_si512(_mm512_or_si512(e, s), _mm512_and_si512(r, low7)));
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

    alignas(64) uint8_t list3[kListBytes];
    alignas(64) uint8_t list2[kListBytes];
    // Escapes may end with the page, where lists are read beyond their end.
    uint8_t* escapes = list2;
    std::memcpy(escapes, in + planes.escapes_at(side), planes.escapes);
    std::memset(escapes + planes.escapes, 0, kSlack);
    read_level({header, 6, escapes}, in + planes.level3(side), planes.later2, list3);
    std::memset(list3 + planes.later2, 0, kSlack);
    read_level({header, 3, list3}, in + planes.level2(side), planes.later1, list2);
    std::memset(list2 + planes.later1, 0, kSlack);
    Level level(header, 0, list2);
    for (size_t i = 0; i < side; i += 64) {
        const auto* codes = reinterpret_cast<const __m128i*>(in + planes.level1(side) + i / 4);
        join(level.read(_mm_loadu_si128(codes), ~__mmask64{0}), in + i, words + i);
    }
    return planes.end(side);
}

}  // namespace

bool has_avx512_vbmi2() {
    return cpu_has(Isa::avx512) && __builtin_cpu_supports("avx512vbmi") != 0 &&
           __builtin_cpu_supports("avx512vbmi2") != 0;
}

void avx512_pack(const uint16_t* words, size_t side, std::byte* page) {
    pack_page(words, side, page, pack_side);
}

void avx512_unpack(const std::byte* page, size_t side, uint16_t* words) {
    unpack_page(page, side, words, unpack_side);
}

}  // namespace quire::codec::bx
