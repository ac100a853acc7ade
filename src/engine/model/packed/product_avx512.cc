#include <immintrin.h>

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
    static Int bits_and(Int a, int8_t mask) { return _mm512_and_si512(a, _mm512_set1_epi8(mask)); }
    static Int bits_or(Int a, Int b) { return _mm512_or_si512(a, b); }
    static Int even_bytes(Int a) { return _mm512_and_si512(a, _mm512_set1_epi16(0xff)); }
    static Int shift_right(Int a, int n) { return _mm512_srli_epi16(a, static_cast<unsigned>(n)); }
    static Int shift_left(Int a, int n) { return _mm512_slli_epi16(a, static_cast<unsigned>(n)); }
    static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
    static Int dot_pairs(Int sum, Int a, Int b) { return _mm512_dpwssd_epi32(sum, a, b); }

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

void avx512_quantise_row(const float* in, int64_t n_in, std::byte* row) {
    generic::quantise<Avx512>(in, n_in, row);
}

void avx512_multiply(const Product& product) {
    generic::multiply<Avx512>(product);
}

}  // namespace quire::packed
