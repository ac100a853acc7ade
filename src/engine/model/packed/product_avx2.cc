#include <immintrin.h>

#include "engine/model/packed/gate_generic.h"
#include "engine/model/packed/product_generic.h"
#include "engine/model/packed/product_isas.h"
#include "engine/model/packed/rows_generic.h"

namespace quire::packed {
namespace {

struct Avx2 {
    static constexpr int kLanes = 8;
    static constexpr int32_t kMaxRows = 4;  // 16 registers
    using Int = __m256i;
    using Float = __m256;

    static Int load(const std::byte* p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    static Int zero() { return _mm256_setzero_si256(); }
    static Int set1(int32_t v) { return _mm256_set1_epi32(v); }
    static void store_values(const int32_t* values, RowBlock* out) {
        for (int i = 0; i < kInputs; ++i) out->values[i] = static_cast<int16_t>(values[i]);
    }

    // Codes of inputs 4v..4v+3 times a row's. The second sum stays zero: 16 registers are too few
    // for two of 4 rows.
    struct Codes {
        Int even, odd;  // bytes as 16-bit lanes
    };
    static Codes codes(Int bytes) {
        return {_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(bytes, 8)};
    }
    static void dot(const Codes& c, const RowBlock& row, int v, Int* a, Int*) {
        *a = dot_pairs(*a, c.even, row.values + 4 * v);
        *a = dot_pairs(*a, c.odd, row.values + 4 * v + 2);
    }
    static void start(Int offset, Int* a, Int* b) {
        *a = offset;
        *b = zero();
    }
    static Int finish(Int a, Int) { return a; }
    static Int sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
    template <int kPower>
    static Int times_power(Int a) {
        return _mm256_slli_epi32(a, __builtin_ctz(static_cast<unsigned>(kPower)));
    }
    static Int bits_and(Int a, int8_t mask) { return _mm256_and_si256(a, _mm256_set1_epi8(mask)); }
    static Int bits_or(Int a, Int b) { return _mm256_or_si256(a, b); }
    static Int shift_right(Int a, int n) { return _mm256_srli_epi16(a, n); }
    static Int shift_left(Int a, int n) { return _mm256_slli_epi16(a, n); }
    static Int dot_pairs(Int sum, Int codes, const int16_t* values) {
        const Int pair = _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(values));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(codes, pair));
        // g++ 12 would regroup the sums, keep all products of a block alive at once and spill them.
        asm("" : "+x"(sum));
        return sum;
    }

    static Float fzero() { return _mm256_setzero_ps(); }
    static Float fset1(float v) { return _mm256_set1_ps(v); }
    static Float to_float(Int a) { return _mm256_cvtepi32_ps(a); }
    static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
    static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Float negate(Float a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
    static Float load_half(const std::byte* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static Float load_u8(const std::byte* p) {
        return to_float(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    }
    static Float load_i8(const std::byte* p) {
        return to_float(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    }
    static void store(float* p, Float v) { _mm256_storeu_ps(p, v); }
};

}  // namespace

void avx2_quantise_row(const float* in, int64_t n_in, std::byte* tile, int32_t slot) {
    generic::quantise<Avx2>(in, n_in, tile, slot);
}

void avx2_gate(Gate kind, const float* gate, const float* up, int64_t n, float* out) {
    generic::gate(kind, gate, up, n, out);
}

void avx2_multiply(const Product& product) {
    generic::multiply<Avx2>(product);
}

}  // namespace quire::packed
