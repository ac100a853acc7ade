// The AVX-512 vocabulary (F, BW, VL, DQ) of the codecs: sixteen lanes in one register.
#pragma once

#include <cstdint>

#include <immintrin.h>

namespace quire::codec {

struct Avx512 {
    using f32 = __m512;
    using i32 = __m512i;

    static f32 load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(float* p, f32 x) { _mm512_storeu_ps(p, x); }
    static f32 zero() { return _mm512_setzero_ps(); }
    static f32 set1(float x) { return _mm512_set1_ps(x); }
    static f32 add(f32 a, f32 b) { return _mm512_add_ps(a, b); }
    static f32 sub(f32 a, f32 b) { return _mm512_sub_ps(a, b); }
    static f32 mul(f32 a, f32 b) { return _mm512_mul_ps(a, b); }
    static f32 div(f32 a, f32 b) { return _mm512_div_ps(a, b); }
    static f32 min(f32 a, f32 b) { return _mm512_min_ps(a, b); }
    static f32 max(f32 a, f32 b) { return _mm512_max_ps(a, b); }
    static f32 fma(f32 a, f32 b, f32 c) { return _mm512_fmadd_ps(a, b, c); }    // a * b + c
    static f32 fnma(f32 a, f32 b, f32 c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
    static f32 abs(f32 x) { return _mm512_abs_ps(x); }
    static f32 round_even(f32 x) {
        return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    // 8 + 8, 4 + 4, 2 + 2, 1 + 1.
    static float sum(f32 x) {
        const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
        const __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    // Lane i and lane i + kDistance become their sum and their difference.
    template <int kDistance>
    static f32 butterfly(f32 x) {
        constexpr __mmask16 kUpper = kDistance == 1   ? 0xaaaa
                                     : kDistance == 2 ? 0xcccc
                                     : kDistance == 4 ? 0xf0f0
                                                      : 0xff00;
        f32 other;
        if constexpr (kDistance == 1) other = _mm512_permute_ps(x, 0xb1);
        if constexpr (kDistance == 2) other = _mm512_permute_ps(x, 0x4e);
        if constexpr (kDistance == 4) other = _mm512_shuffle_f32x4(x, x, 0xb1);
        if constexpr (kDistance == 8) other = _mm512_shuffle_f32x4(x, x, 0x4e);
        return _mm512_mask_sub_ps(_mm512_add_ps(other, x), kUpper, other, x);
    }

    static i32 bits(f32 x) { return _mm512_castps_si512(x); }
    static f32 from_bits(i32 x) { return _mm512_castsi512_ps(x); }
    static i32 iset1(int32_t x) { return _mm512_set1_epi32(x); }
    static i32 iadd(i32 a, i32 b) { return _mm512_add_epi32(a, b); }
    static i32 isub(i32 a, i32 b) { return _mm512_sub_epi32(a, b); }
    static i32 iand(i32 a, i32 b) { return _mm512_and_si512(a, b); }
    static i32 ior(i32 a, i32 b) { return _mm512_or_si512(a, b); }
    static i32 ixor(i32 a, i32 b) { return _mm512_xor_si512(a, b); }
    static i32 imax(i32 a, i32 b) { return _mm512_max_epi32(a, b); }
    template <int kBits>
    static i32 shift_left(i32 x) {
        return _mm512_slli_epi32(x, kBits);
    }
    template <int kBits>
    static i32 shift_right(i32 x) {  // zeros come in
        return _mm512_srli_epi32(x, kBits);
    }
    template <int kBits>
    static i32 shift_sign(i32 x) {  // the sign comes in
        return _mm512_srai_epi32(x, kBits);
    }
    // a < b ? x : y, signed.
    static i32 if_less(i32 a, i32 b, i32 x, i32 y) {
        return _mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(a, b), y, x);
    }
    static int32_t largest(i32 x) { return _mm512_reduce_max_epi32(x); }
    static i32 to_int(f32 x) { return _mm512_cvtps_epi32(x); }
    static i32 truncate(f32 x) { return _mm512_cvttps_epi32(x); }
    static f32 to_float(i32 x) { return _mm512_cvtepi32_ps(x); }
    // count + step where x >= threshold.
    static i32 add_where_at_least(i32 count, f32 x, f32 threshold, int32_t step) {
        return _mm512_mask_add_epi32(count, _mm512_cmp_ps_mask(x, threshold, _CMP_GE_OQ), count,
                                     iset1(step));
    }

    // Tables in registers; an index outside has an undefined lane.
    struct Table8 {
        __m512 entries;
    };
    struct Table16 {
        __m512 entries;
    };
    static Table8 table8(const float* p) { return {_mm512_castps256_ps512(_mm256_loadu_ps(p))}; }
    static Table16 table16(const float* p) { return {_mm512_loadu_ps(p)}; }
    static f32 look_up(const Table8& t, i32 index) {
        return _mm512_permutexvar_ps(index, t.entries);
    }
    static f32 look_up(const Table16& t, i32 index) {
        return _mm512_permutexvar_ps(index, t.entries);
    }

    static i32 load_u8(const void* p) {
        return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    }
    static void store_u8(void* p, i32 x) {  // REQUIRES: 0 <= x < 256
        _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
    }
    static i32 load_u16(const uint16_t* p) {
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static void store_u16(uint16_t* p, i32 x) {  // REQUIRES: 0 <= x < 65536
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x));
    }
    static f32 load_f16(const uint16_t* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static void store_f16(uint16_t* p, f32 x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                            _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
};

}  // namespace quire::codec
