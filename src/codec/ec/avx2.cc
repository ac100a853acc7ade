#include "codec/isa/avx2.h"

#include "codec/ec/generic.h"

namespace quire::codec::ec {
namespace {

struct Words : Avx2 {
    static constexpr uint32_t kTileVectors = 1;

    static void store_bytes(uint8_t* p, i32 x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.hi);
    }

    struct Bytes {
        i32 even, odd;
    };
    static Bytes load_bytes(const uint8_t* p) {
        const auto* at = reinterpret_cast<const __m256i*>(p);
        const __m256i lo = _mm256_loadu_si256(at), hi = _mm256_loadu_si256(at + 1);
        const __m256i low = _mm256_set1_epi16(0xff);
        return {{_mm256_and_si256(lo, low), _mm256_and_si256(hi, low)},
                {_mm256_srli_epi16(lo, 8), _mm256_srli_epi16(hi, 8)}};
    }
    struct Weights {
        __m256i even, odd;
    };
    static Weights set_weights(const int8_t* p) {
        int32_t four;
        __builtin_memcpy(&four, p, sizeof(four));
        const __m256i x = _mm256_set1_epi32(four);
        return {_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8)};
    }
    static i32 dot(i32 sum, const Bytes& x, const Weights& w) {
        return iadd(sum, {half_dot(x.even.lo, x.odd.lo, w), half_dot(x.even.hi, x.odd.hi, w)});
    }

    // 16 rows of 16 numbers become columns.
    static void transpose(const float* in, size_t in_stride, float* out, size_t out_stride) {
        for (size_t r = 0; r < 16; r += 8)
            for (size_t c = 0; c < 16; c += 8)
                transpose8(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
    }

 private:
    static __m256i half_dot(__m256i even, __m256i odd, const Weights& w) {
        return _mm256_add_epi32(_mm256_madd_epi16(even, w.even), _mm256_madd_epi16(odd, w.odd));
    }
    static void transpose8(const float* in, size_t in_stride, float* out, size_t out_stride) {
        __m256 a[8], b[8];
        for (size_t i = 0; i < 4; ++i)
            for (size_t half = 0; half < 8; half += 4)
                a[i + half] = _mm256_insertf128_ps(
                    _mm256_castps128_ps256(_mm_loadu_ps(in + i * in_stride + half)),
                    _mm_loadu_ps(in + (i + 4) * in_stride + half), 1);
        for (size_t i = 0; i < 8; i += 2) {
            b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
            b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
        }
        for (size_t i = 0; i < 8; i += 4) {
            _mm256_storeu_ps(out + i * out_stride, _mm256_shuffle_ps(b[i], b[i + 2], 0x44));
            _mm256_storeu_ps(out + (i + 1) * out_stride, _mm256_shuffle_ps(b[i], b[i + 2], 0xee));
            _mm256_storeu_ps(out + (i + 2) * out_stride,
                             _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44));
            _mm256_storeu_ps(out + (i + 3) * out_stride,
                             _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee));
        }
    }
};

// By eight bits: at each that is set, how many are set below it.
struct Places {
    uint8_t of[256][8];
};
constexpr Places all_places() {
    Places places{};
    for (uint32_t bits = 0; bits < 256; ++bits)
        for (uint32_t i = 0, n = 0; i < 8; ++i) {
            places.of[bits][i] = static_cast<uint8_t>(n);
            n += bits >> i & 1;
        }
    return places;
}
constexpr Places kPlaces = all_places();

// Eight states of a whole run. REQUIRES: eight words are left.
__m256i read_half(SymbolReader* reader, const uint32_t* slots, __m256i states, __m256i* symbols) {
    const __m256i field = _mm256_set1_epi32(RansTable::kFieldMask);
    const __m256i slot = _mm256_i32gather_epi32(reinterpret_cast<const int*>(slots),
                                                _mm256_and_si256(states, field), 4);
    const __m256i frequency =
        _mm256_and_si256(_mm256_srli_epi32(slot, RansTable::kFrequencyShift), field);
    const __m256i next =
        _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(states, kProbabilityBits)),
                         _mm256_and_si256(slot, field));
    const __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(kStateLow), next);
    const auto wanted = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(low)));
    const __m256i words =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(reader->words)));
    const __m256i places =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kPlaces.of[wanted])));
    const auto n = static_cast<uint32_t>(__builtin_popcount(wanted));
    reader->words += size_t{2} * n;
    reader->left_words -= n;
    *symbols = _mm256_srli_epi32(slot, RansTable::kSymbolShift);
    const __m256i more =
        _mm256_or_si256(_mm256_slli_epi32(next, 16), _mm256_permutevar8x32_epi32(words, places));
    return _mm256_blendv_epi8(next, more, low);
}

void read_runs(SymbolReader* reader, const RansTable& table, uint32_t tokens, uint8_t* symbols) {
    uint32_t first = 0;
    for (; first + kLanes <= tokens && reader->left_words >= kLanes; first += kLanes) {
        auto* states = reinterpret_cast<__m256i*>(reader->states + size_t{reader->turn} * kLanes);
        reader->turn = (reader->turn + 1) % kGroups;
        Avx2::i32 symbol;
        for (int half = 0; half < 2; ++half)
            _mm256_storeu_si256(states + half,
                                read_half(reader, table.slots(), _mm256_loadu_si256(states + half),
                                          half == 0 ? &symbol.lo : &symbol.hi));
        Avx2::store_u8(symbols + first, symbol);
    }
    // Short runs, and those near the end.
    if (first < tokens) ref_read_runs(reader, table, tokens - first, symbols + first);
}

void read(SymbolReader* reader, const SymbolRows& rows, uint8_t* symbols) {
    for (uint32_t i = 0; i < rows.components; ++i) {
        const size_t c = rows.order[i];
        read_runs(reader, rows.tables[rows.classes[c]], rows.tokens, symbols + c * rows.stride);
    }
}

}  // namespace

Kernels avx2_kernels() {
    return generic::kernels<Words>("avx2", has_avx2, read, ref_write);
}

}  // namespace quire::codec::ec
