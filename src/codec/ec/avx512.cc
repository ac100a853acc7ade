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

// The states of all groups, as many vectors.
struct States {
    __m512i of[kGroups];
};

// The words of those lanes that want one. REQUIRES: kLanes words are left.
[[gnu::always_inline]] inline __m512i next_words(SymbolReader* reader, __mmask16 wanted) {
    const __m512i words = _mm512_cvtepu16_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reader->words)));
    const auto n = static_cast<uint32_t>(__builtin_popcount(wanted));
    reader->words += size_t{2} * n;
    reader->left_words -= n;
    return _mm512_maskz_expand_epi32(wanted, words);
}
// The same where fewer may be left.
__m512i last_words(SymbolReader* reader, __mmask16 wanted) {
    if (reader->left_words >= kLanes) return next_words(reader, wanted);
    const auto there = static_cast<__mmask16>((1u << reader->left_words) - 1);
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, reader->words));
    const auto n = static_cast<uint32_t>(__builtin_popcount(wanted));
    reader->short_ |= n > reader->left_words;
    const size_t taken = n < reader->left_words ? n : reader->left_words;
    reader->words += 2 * taken;
    reader->left_words -= taken;
    return _mm512_maskz_expand_epi32(wanted, words);
}

template <bool kLast>
[[gnu::always_inline]] inline __m512i read_run(SymbolReader* reader, const uint32_t* slots,
                                               __m512i states, __mmask16 lanes, uint8_t* symbols) {
    const __m512i field = _mm512_set1_epi32(RansTable::kFieldMask);
    const __m512i slot = _mm512_i32gather_epi32(_mm512_and_si512(states, field), slots, 4);
    const __m512i frequency =
        _mm512_and_si512(_mm512_srli_epi32(slot, RansTable::kFrequencyShift), field);
    __m512i next =
        _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(states, kProbabilityBits)),
                         _mm512_and_si512(slot, field));
    const __mmask16 low = _mm512_mask_cmplt_epu32_mask(lanes, next, _mm512_set1_epi32(kStateLow));
    const __m512i words = kLast ? last_words(reader, low) : next_words(reader, low);
    next = _mm512_mask_or_epi32(next, low, _mm512_slli_epi32(next, 16), words);
    const __m512i symbol = _mm512_mask_blend_epi32(
        lanes, _mm512_set1_epi32(kZeroSymbol), _mm512_srli_epi32(slot, RansTable::kSymbolShift));
    Avx512::store_u8(symbols, symbol);
    return _mm512_mask_blend_epi32(lanes, states, next);
}

// Runs of one component, any number of them, near the end too.
void read_runs(SymbolReader* reader, const RansTable& table, uint32_t tokens, uint8_t* symbols) {
    const uint32_t runs = (tokens + kLanes - 1) / kLanes;
    const auto last = static_cast<__mmask16>(kAll >> (runs * kLanes - tokens));
    for (uint32_t run = 0; run < runs; ++run) {
        uint32_t* states = reader->states + size_t{reader->turn} * kLanes;
        reader->turn = (reader->turn + 1) % kGroups;
        _mm512_storeu_si512(
            states, read_run<true>(reader, table.slots(), _mm512_loadu_si512(states),
                                   run + 1 == runs ? last : kAll, symbols + size_t{run} * kLanes));
    }
}

// Components of whole turns: states stay in registers, and nobody looks how many words are left
// while there are enough for a turn.
uint32_t read_turns(SymbolReader* shared, const SymbolRows& rows, uint8_t* symbols) {
    SymbolReader reader = *shared;
    States states;
#pragma GCC unroll 4
    for (uint32_t g = 0; g < kGroups; ++g)
        states.of[g] = _mm512_loadu_si512(reader.states + size_t{g} * kLanes);
    uint32_t i = 0;
    for (; i < rows.components; ++i) {
        if (reader.left_words < rows.tokens) break;
        const size_t c = rows.order[i];
        const uint32_t* slots = rows.tables[rows.classes[c]].slots();
        uint8_t* own = symbols + c * rows.stride;
        for (uint32_t t = 0; t < rows.tokens; t += kStates)
#pragma GCC unroll 4
            for (uint32_t g = 0; g < kGroups; ++g)
                states.of[g] = read_run<false>(&reader, slots, states.of[g], kAll,
                                               own + t + size_t{g} * kLanes);
    }
#pragma GCC unroll 4
    for (uint32_t g = 0; g < kGroups; ++g)
        _mm512_storeu_si512(shared->states + size_t{g} * kLanes, states.of[g]);
    shared->words = reader.words;
    shared->left_words = reader.left_words;
    return i;
}

void read(SymbolReader* reader, const SymbolRows& rows, uint8_t* symbols) {
    const bool turns = rows.tokens % kStates == 0 && reader->turn == 0;
    for (uint32_t i = turns ? read_turns(reader, rows, symbols) : 0; i < rows.components; ++i) {
        const size_t c = rows.order[i];
        read_runs(reader, rows.tables[rows.classes[c]], rows.tokens, symbols + c * rows.stride);
    }
}

// Numbers by symbol, in registers.
class BySymbol {
 public:
    explicit BySymbol(const uint32_t* numbers)
        : of_{_mm512_load_si512(numbers), _mm512_load_si512(numbers + 16),
              _mm512_load_si512(numbers + 32), _mm512_load_si512(numbers + 48)} {}
    [[gnu::always_inline]] __m512i operator[](__m512i symbols) const {
        const __mmask16 high = _mm512_test_epi32_mask(symbols, _mm512_set1_epi32(32));
        return _mm512_mask_blend_epi32(high, _mm512_permutex2var_epi32(of_[0], symbols, of_[1]),
                                       _mm512_permutex2var_epi32(of_[2], symbols, of_[3]));
    }

 private:
    __m512i of_[4];
};

// State over frequency: RansTable::reciprocals.
[[gnu::always_inline]] inline __m512i quotients(__m512i states, __m512i reciprocals, __m512i more) {
    const __m512i shift = _mm512_add_epi32(more, _mm512_set1_epi32(kStateBits));
    const auto half = [](__m512i state, __m512i reciprocal, __m512i by) {
        return _mm512_srlv_epi64(_mm512_mul_epu32(state, reciprocal), by);
    };
    const __m512i even =
        half(states, reciprocals,
             _mm512_and_si512(shift, _mm512_set1_epi64(0xffffffff)));
    const __m512i odd = half(_mm512_srli_epi64(states, 32), _mm512_srli_epi64(reciprocals, 32),
                             _mm512_srli_epi64(shift, 32));
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

[[gnu::always_inline]] inline __m512i write_run(SymbolWriter* writer, const BySymbol& infos,
                                                const BySymbol& reciprocals, __m512i before,
                                                __mmask16 lanes, const uint8_t* symbols) {
    const __m512i field = _mm512_set1_epi32(RansTable::kFieldMask);
    const __m512i symbol = Avx512::load_u8(symbols);
    const __m512i info = infos[symbol];
    const __m512i frequency =
        _mm512_and_si512(_mm512_srli_epi32(info, RansTable::kFrequencyShift), field);
    const __mmask16 full =
        _mm512_mask_cmpge_epu32_mask(lanes, before, _mm512_slli_epi32(frequency, kFullShift));
    const auto n = static_cast<uint32_t>(__builtin_popcount(full));
    writer->end -= size_t{2} * n;
    _mm256_mask_storeu_epi16(writer->end, static_cast<__mmask16>((1u << n) - 1),
                             _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full, before)));
    const __m512i state = _mm512_mask_srli_epi32(before, full, before, 16);
    const __m512i quotient = quotients(state, reciprocals[symbol],
                                       _mm512_srli_epi32(info, RansTable::kMoreShift));
    // quotient * 2^12 + first + the rest of the division.
    const __m512i others = _mm512_sub_epi32(_mm512_set1_epi32(kProbabilities), frequency);
    const __m512i next =
        _mm512_add_epi32(_mm512_add_epi32(state, _mm512_and_si512(info, field)),
                         _mm512_mullo_epi32(quotient, others));
    return _mm512_mask_blend_epi32(lanes, before, next);
}

// Components of whole turns, with states in registers.
void write_turns(SymbolWriter* shared, const SymbolRows& rows, const uint8_t* symbols) {
    SymbolWriter writer{.states = {}, .end = shared->end};
    States states;
#pragma GCC unroll 4
    for (uint32_t g = 0; g < kGroups; ++g)
        states.of[g] = _mm512_loadu_si512(shared->states + size_t{g} * kLanes);
    for (uint32_t i = rows.components; i-- > 0;) {
        const size_t c = rows.order[i];
        const RansTable& table = rows.tables[rows.classes[c]];
        const BySymbol infos(table.symbols()), reciprocals(table.reciprocals());
        const uint8_t* own = symbols + c * rows.stride;
        for (uint32_t t = rows.tokens; t > 0; t -= kStates)
#pragma GCC unroll 4
            for (uint32_t g = kGroups; g-- > 0;)
                states.of[g] = write_run(&writer, infos, reciprocals, states.of[g], kAll,
                                         own + t - kStates + size_t{g} * kLanes);
    }
#pragma GCC unroll 4
    for (uint32_t g = 0; g < kGroups; ++g)
        _mm512_storeu_si512(shared->states + size_t{g} * kLanes, states.of[g]);
    shared->end = writer.end;
}

void write(SymbolWriter* writer, const SymbolRows& rows, const uint8_t* symbols) {
    if (rows.tokens % kStates == 0 && writer->turn % kGroups == 0)
        return write_turns(writer, rows, symbols);
    const uint32_t runs = (rows.tokens + kLanes - 1) / kLanes;
    const auto last = static_cast<__mmask16>(kAll >> (runs * kLanes - rows.tokens));
    for (uint32_t i = rows.components; i-- > 0;) {
        const size_t c = rows.order[i];
        const RansTable& table = rows.tables[rows.classes[c]];
        const BySymbol infos(table.symbols()), reciprocals(table.reciprocals());
        auto lanes = last;
        for (uint32_t run = runs; run-- > 0; lanes = kAll) {
            writer->turn = (writer->turn + kGroups - 1) % kGroups;
            uint32_t* at = writer->states + size_t{writer->turn} * kLanes;
            _mm512_storeu_si512(
                at, write_run(writer, infos, reciprocals, _mm512_loadu_si512(at), lanes,
                              symbols + c * rows.stride + size_t{run} * kLanes));
        }
    }
}

}  // namespace

Kernels avx512_kernels() {
    return generic::kernels<Words>("avx512", has_avx512, read, write);
}

}  // namespace quire::codec::ec
