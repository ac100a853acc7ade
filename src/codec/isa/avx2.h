// The AVX2 vocabulary (with FMA and F16C) of the codecs: sixteen lanes in two registers, so that
// everything that is written over it adds up in the same order as with AVX-512.
#pragma once

#include <cstdint>

#include <immintrin.h>

namespace quire::codec {

struct Avx2 {
    struct f32 {
        __m256 lo, hi;
    };
    struct i32 {
        __m256i lo, hi;
    };

    static f32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    static void store(float* p, f32 x) {
        _mm256_storeu_ps(p, x.lo);
        _mm256_storeu_ps(p + 8, x.hi);
    }
    static f32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
    static f32 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
    static f32 add(f32 a, f32 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
    static f32 sub(f32 a, f32 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
    static f32 mul(f32 a, f32 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
    static f32 div(f32 a, f32 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
    static f32 min(f32 a, f32 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
    static f32 max(f32 a, f32 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
    static f32 fma(f32 a, f32 b, f32 c) {  // a * b + c
        return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
    }
    static f32 fnma(f32 a, f32 b, f32 c) {  // c - a * b
        return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
    }
    static f32 abs(f32 x) {
        const __m256 sign = _mm256_set1_ps(-0.0f);
        return {_mm256_andnot_ps(sign, x.lo), _mm256_andnot_ps(sign, x.hi)};
    }
    static f32 round_even(f32 x) {
        return {_mm256_round_ps(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    // 8 + 8, 4 + 4, 2 + 2, 1 + 1.
    static float sum(f32 x) {
        const __m256 eight = _mm256_add_ps(x.lo, x.hi);
        const __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    // Lane i and lane i + kDistance become their sum and their difference.
    template <int kDistance>
    static f32 butterfly(f32 x) {
        if constexpr (kDistance == 8)
            return {_mm256_add_ps(x.lo, x.hi), _mm256_sub_ps(x.lo, x.hi)};
        else
            return {half_butterfly<kDistance>(x.lo), half_butterfly<kDistance>(x.hi)};
    }

    static i32 bits(f32 x) { return {_mm256_castps_si256(x.lo), _mm256_castps_si256(x.hi)}; }
    static f32 from_bits(i32 x) { return {_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)}; }
    static i32 iset1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
    static i32 iadd(i32 a, i32 b) {
        return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
    }
    static i32 isub(i32 a, i32 b) {
        return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
    }
    static i32 iand(i32 a, i32 b) {
        return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
    }
    static i32 ior(i32 a, i32 b) {
        return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
    }
    static i32 ixor(i32 a, i32 b) {
        return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
    }
    static i32 imax(i32 a, i32 b) {
        return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
    }
    template <int kBits>
    static i32 shift_left(i32 x) {
        return {_mm256_slli_epi32(x.lo, kBits), _mm256_slli_epi32(x.hi, kBits)};
    }
    template <int kBits>
    static i32 shift_right(i32 x) {  // zeros come in
        return {_mm256_srli_epi32(x.lo, kBits), _mm256_srli_epi32(x.hi, kBits)};
    }
    template <int kBits>
    static i32 shift_sign(i32 x) {  // the sign comes in
        return {_mm256_srai_epi32(x.lo, kBits), _mm256_srai_epi32(x.hi, kBits)};
    }
    // a < b ? x : y, signed.
    static i32 if_less(i32 a, i32 b, i32 x, i32 y) {
        return {_mm256_blendv_epi8(y.lo, x.lo, _mm256_cmpgt_epi32(b.lo, a.lo)),
                _mm256_blendv_epi8(y.hi, x.hi, _mm256_cmpgt_epi32(b.hi, a.hi))};
    }
    static int32_t largest(i32 x) {
        const __m256i eight = _mm256_max_epi32(x.lo, x.hi);
        __m128i four =
            _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
        four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
        return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
    }
    static i32 to_int(f32 x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }
    static i32 truncate(f32 x) { return {_mm256_cvttps_epi32(x.lo), _mm256_cvttps_epi32(x.hi)}; }
    static f32 to_float(i32 x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
    // count + step where x >= threshold.
    static i32 add_where_at_least(i32 count, f32 x, f32 threshold, int32_t step) {
        const i32 where = {_mm256_castps_si256(_mm256_cmp_ps(x.lo, threshold.lo, _CMP_GE_OQ)),
                           _mm256_castps_si256(_mm256_cmp_ps(x.hi, threshold.hi, _CMP_GE_OQ))};
        return iadd(count, iand(where, iset1(step)));
    }

    // Tables in registers; an index outside has an undefined lane.
    struct Table8 {
        __m256 entries;
    };
    struct Table16 {
        __m256 low, high;
    };
    static Table8 table8(const float* p) { return {_mm256_loadu_ps(p)}; }
    static Table16 table16(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    static f32 look_up(const Table8& t, i32 index) {
        return {_mm256_permutevar8x32_ps(t.entries, index.lo),
                _mm256_permutevar8x32_ps(t.entries, index.hi)};
    }
    static f32 look_up(const Table16& t, i32 index) {
        return {half_look_up(t, index.lo), half_look_up(t, index.hi)};
    }

    static i32 load_u8(const void* p) {
        const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
        return {_mm256_cvtepu8_epi32(bytes),
                _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
    }
    static void store_u8(void* p, i32 x) {  // REQUIRES: 0 <= x < 256
        const __m128i low =
            _mm_packus_epi32(_mm256_castsi256_si128(x.lo), _mm256_extracti128_si256(x.lo, 1));
        const __m128i high =
            _mm_packus_epi32(_mm256_castsi256_si128(x.hi), _mm256_extracti128_si256(x.hi, 1));
        _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packus_epi16(low, high));
    }
    static i32 load_u16(const uint16_t* p) {
        const auto* at = reinterpret_cast<const __m128i*>(p);
        return {_mm256_cvtepu16_epi32(_mm_loadu_si128(at)),
                _mm256_cvtepu16_epi32(_mm_loadu_si128(at + 1))};
    }
    static void store_u16(uint16_t* p, i32 x) {  // REQUIRES: 0 <= x < 65536
        auto* at = reinterpret_cast<__m128i*>(p);
        _mm_storeu_si128(
            at, _mm_packus_epi32(_mm256_castsi256_si128(x.lo), _mm256_extracti128_si256(x.lo, 1)));
        _mm_storeu_si128(at + 1, _mm_packus_epi32(_mm256_castsi256_si128(x.hi),
                                                  _mm256_extracti128_si256(x.hi, 1)));
    }
    static f32 load_f16(const uint16_t* p) {
        const auto* at = reinterpret_cast<const __m128i*>(p);
        return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
    }
    static void store_f16(uint16_t* p, f32 x) {
        constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        auto* at = reinterpret_cast<__m128i*>(p);
        _mm_storeu_si128(at, _mm256_cvtps_ph(x.lo, kNearest));
        _mm_storeu_si128(at + 1, _mm256_cvtps_ph(x.hi, kNearest));
    }

 private:
    template <int kDistance>
    static __m256 half_butterfly(__m256 x) {
        __m256 other;
        if constexpr (kDistance == 1) other = _mm256_permute_ps(x, 0xb1);
        if constexpr (kDistance == 2) other = _mm256_permute_ps(x, 0x4e);
        if constexpr (kDistance == 4) other = _mm256_permute2f128_ps(x, x, 0x01);
        constexpr int kUpper = kDistance == 1 ? 0xaa : kDistance == 2 ? 0xcc : 0xf0;
        return _mm256_blend_ps(_mm256_add_ps(other, x), _mm256_sub_ps(other, x), kUpper);
    }
    static __m256 half_look_up(const Table16& t, __m256i index) {
        return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t.low, index),
                                _mm256_permutevar8x32_ps(t.high, index),
                                _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
    }
};

}  // namespace quire::codec
