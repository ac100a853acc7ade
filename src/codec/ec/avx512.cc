#include "codec/ec/avx512_words.h"

namespace quire::codec::ec {
namespace {

// Products of bytes by way of 16 bits, where VNNI is absent.
struct Words : Avx512Words {
    struct Bytes {
        __m512i even, odd;
    };
    static Bytes load_bytes(const uint8_t* p) {
        const __m512i x = _mm512_loadu_si512(p);
        return {_mm512_and_si512(x, _mm512_set1_epi16(0xff)), _mm512_srli_epi16(x, 8)};
    }
    static Bytes set_weights(const int8_t* p) {
        int32_t four;
        __builtin_memcpy(&four, p, sizeof(four));
        const __m512i x = _mm512_set1_epi32(four);
        return {_mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8), _mm512_srai_epi16(x, 8)};
    }
    static i32 dot(i32 sum, const Bytes& x, const Bytes& weights) {
        return _mm512_add_epi32(_mm512_add_epi32(sum, _mm512_madd_epi16(x.even, weights.even)),
                                _mm512_madd_epi16(x.odd, weights.odd));
    }
};

constexpr __mmask16 kAll = 0xffff;

__m512i next_words(SymbolReader* reader, __mmask16 wanted) {
    const auto n = static_cast<uint32_t>(__builtin_popcount(wanted));
    __mmask16 there = kAll;
    if (reader->left_words < kLanes) {
        there = static_cast<__mmask16>((1u << reader->left_words) - 1);
        reader->short_ |= n > reader->left_words;
    }
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, reader->words));
    const size_t taken = n < reader->left_words ? n : reader->left_words;
    reader->words += 2 * taken;
    reader->left_words -= taken;
    return _mm512_maskz_expand_epi32(wanted, words);
}

__m512i read_run(SymbolReader* reader, const uint32_t* slots, __m512i states, __mmask16 lanes,
                 uint8_t* symbols) {
    const __m512i field = _mm512_set1_epi32(RansTable::kFieldMask);
    const __m512i slot = _mm512_i32gather_epi32(_mm512_and_si512(states, field), slots, 4);
    const __m512i frequency =
        _mm512_and_si512(_mm512_srli_epi32(slot, RansTable::kFrequencyShift), field);
    __m512i next =
        _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(states, kProbabilityBits)),
                         _mm512_and_si512(slot, field));
    const __mmask16 low = _mm512_mask_cmplt_epu32_mask(lanes, next, _mm512_set1_epi32(kStateLow));
    next = _mm512_mask_or_epi32(next, low, _mm512_slli_epi32(next, 16), next_words(reader, low));
    const __m512i symbol = _mm512_mask_blend_epi32(
        lanes, _mm512_set1_epi32(kZeroSymbol), _mm512_srli_epi32(slot, RansTable::kSymbolShift));
    Avx512::store_u8(symbols, symbol);
    return _mm512_mask_blend_epi32(lanes, states, next);
}

void read(SymbolReader* shared, const RansTable& table, uint32_t tokens, uint8_t* symbols) {
    SymbolReader reader = *shared;
    __m512i states[kGroups];
#pragma GCC unroll 4
    for (uint32_t g = 0; g < kGroups; ++g)
        states[g] =
            _mm512_loadu_si512(reader.states + size_t{(reader.turn + g) % kGroups} * kLanes);
    const uint32_t* slots = table.slots();
    const uint32_t runs = (tokens + kLanes - 1) / kLanes;
    const auto last = static_cast<__mmask16>(kAll >> (runs * kLanes - tokens));
    for (uint32_t run = 0; run < runs; run += kGroups) {
#pragma GCC unroll 4
        for (uint32_t g = 0; g < kGroups; ++g) {
            if (run + g >= runs) break;
            const __mmask16 lanes = run + g + 1 == runs ? last : kAll;
            states[g] =
                read_run(&reader, slots, states[g], lanes, symbols + size_t{run + g} * kLanes);
        }
    }
#pragma GCC unroll 4
    for (uint32_t g = 0; g < kGroups; ++g)
        _mm512_storeu_si512(shared->states + size_t{(reader.turn + g) % kGroups} * kLanes,
                            states[g]);
    shared->words = reader.words;
    shared->left_words = reader.left_words;
    shared->short_ = reader.short_;
    shared->turn = (reader.turn + runs) % kGroups;
}

// How often the frequency goes into the state.
__m512i quotients(__m512i states, __m512i symbols, const double* inverses) {
    const auto half = [&](__m256i state, __m256i symbol) {
        return _mm512_cvttpd_epi32(
            _mm512_mul_pd(_mm512_cvtepi32_pd(state), _mm512_i32gather_pd(symbol, inverses, 8)));
    };
    const __m256i low = half(_mm512_castsi512_si256(states), _mm512_castsi512_si256(symbols));
    const __m256i high =
        half(_mm512_extracti64x4_epi64(states, 1), _mm512_extracti64x4_epi64(symbols, 1));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

void write(SymbolWriter* writer, const RansTable& table, uint32_t tokens, const uint8_t* symbols) {
    const uint32_t runs = (tokens + kLanes - 1) / kLanes;
    auto lanes = static_cast<__mmask16>(kAll >> (runs * kLanes - tokens));
    for (uint32_t run = runs; run-- > 0; lanes = kAll) {
        writer->turn = (writer->turn + kGroups - 1) % kGroups;
        uint32_t* at = writer->states + size_t{writer->turn} * kLanes;
        const __m512i before = _mm512_loadu_si512(at);
        const __m512i symbol = Avx512::load_u8(symbols + size_t{run} * kLanes);
        const __m512i info = _mm512_i32gather_epi32(symbol, table.symbols(), 4);
        const __m512i frequency = _mm512_srli_epi32(info, RansTable::kFrequencyShift);
        const __m512i first = _mm512_and_si512(info, _mm512_set1_epi32(RansTable::kFieldMask));
        const __mmask16 full =
            _mm512_mask_cmpge_epu32_mask(lanes, before, _mm512_slli_epi32(frequency, kFullShift));
        const auto n = static_cast<uint32_t>(__builtin_popcount(full));
        writer->end -= size_t{2} * n;
        _mm256_mask_storeu_epi16(writer->end, static_cast<__mmask16>((1u << n) - 1),
                                 _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full, before)));
        const __m512i state = _mm512_mask_srli_epi32(before, full, before, 16);
        const __m512i quotient = quotients(state, symbol, table.inverses());
        const __m512i rest = _mm512_sub_epi32(state, _mm512_mullo_epi32(quotient, frequency));
        const __m512i next = _mm512_add_epi32(_mm512_slli_epi32(quotient, kProbabilityBits),
                                              _mm512_add_epi32(rest, first));
        _mm512_storeu_si512(at, _mm512_mask_blend_epi32(lanes, before, next));
    }
}

}  // namespace

Kernels avx512_kernels() {
    return generic::kernels<Words>("avx512", has_avx512, read, write);
}

}  // namespace quire::codec::ec
