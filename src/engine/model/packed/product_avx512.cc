#include <immintrin.h>

#include "engine/model/packed/gate_generic.h"
#include "engine/model/packed/product_generic.h"
#include "engine/model/packed/product_isas.h"
#include "engine/model/packed/rows_generic.h"

namespace quire::packed {
namespace {

struct Avx512 {
    static constexpr int kLanes = 16;
    static constexpr int32_t kMaxRows = 8;
    using Int = __m512i;
    using Float = __m512;

    static Int load(const std::byte* p) { return _mm512_loadu_si512(p); }
    static Int zero() { return _mm512_setzero_si512(); }
    static Int set1(int32_t v) { return _mm512_set1_epi32(v); }
    static void store_values(const int32_t* values, RowBlock* out) {
        const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
        for (int i = 0; i < kInputs; i += 16) {
            const Int x = _mm512_loadu_si512(values + i);
            const Int high = _mm512_srai_epi32(_mm512_add_epi32(x, set1(128)), 8);
            const Int low = _mm512_sub_epi32(x, _mm512_slli_epi32(high, 8));
            const auto put = [&](int8_t* to, Int plane) {
                _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                                 _mm_shuffle_epi8(_mm512_cvtepi32_epi8(plane), order));
            };
            put(out->planes.high, high);
            put(out->planes.low, low);
        }
    }

    // Codes of inputs 4v..4v+3 times a row's, as sums of the two planes.
    using Codes = Int;
    static Codes codes(Int bytes) { return bytes; }
    static void dot(Codes c, const RowBlock& row, int v, Int* a, Int* b) {
        *a = dot_bytes(*a, c, row.planes.high + 4 * v);
        *b = dot_bytes(*b, c, row.planes.low + 4 * v);
    }
    static void start(Int offset, Int* high, Int* low) {
        *high = zero();
        *low = offset;
    }
    static Int finish(Int a, Int b) { return _mm512_add_epi32(_mm512_slli_epi32(a, 8), b); }
    static Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
    template <int kPower>
    static Int times_power(Int a) {
        return _mm512_slli_epi32(a, __builtin_ctz(static_cast<unsigned>(kPower)));
    }
    static Int bits_and(Int a, int8_t mask) { return _mm512_and_si512(a, _mm512_set1_epi8(mask)); }
    static Int bits_or(Int a, Int b) { return _mm512_or_si512(a, b); }
    static Int shift_right(Int a, int n) { return _mm512_srli_epi16(a, static_cast<unsigned>(n)); }
    static Int shift_left(Int a, int n) { return _mm512_slli_epi16(a, static_cast<unsigned>(n)); }
    static Int dot_bytes(Int sum, Int codes, const int8_t* values) {
        return _mm512_dpbusd_epi32(sum, codes, set1(*reinterpret_cast<const int32_t*>(values)));
    }

    static Float fzero() { return _mm512_setzero_ps(); }
    static Float fset1(float v) { return _mm512_set1_ps(v); }
    static Float to_float(Int a) { return _mm512_cvtepi32_ps(a); }
    static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
    static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    static Float negate(Float a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
    static Float load_half(const std::byte* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static Float load_u8(const std::byte* p) {
        return to_float(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }
    static Float load_i8(const std::byte* p) {
        return to_float(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }
    static void store(float* p, Float v) { _mm512_storeu_ps(p, v); }
};

}  // namespace

void avx512_quantise_row(const float* in, int64_t n_in, std::byte* tile, int32_t slot) {
    generic::quantise<Avx512>(in, n_in, tile, slot);
}

void avx512_gate(Gate kind, const float* gate, const float* up, int64_t n, float* out) {
    generic::gate(kind, gate, up, n, out);
}

void avx512_multiply(const Product& product) {
    generic::multiply<Avx512>(product);
}

}  // namespace quire::packed
