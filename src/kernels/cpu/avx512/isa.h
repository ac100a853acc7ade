// The AVX-512 vocabulary (F, BW, VL, DQ): what cpu/generic is written in, sixteen lanes at a time.
#pragma once

#include <cstdint>

#include <immintrin.h>

#include "codec/isa/avx512.h"

namespace quire::kernels {

struct Avx512 {
    using Codec = codec::Avx512;  // the vocabulary of the codecs' functions
    using f32 = __m512;
    using i32 = __m512i;
    static constexpr int kLanes = 16;
    // Most accumulators a micro-kernel of `rows` rows may hold per row, in groups of 16 keys or
    // dims.
    static constexpr int groups_per_pass(int) { return 4; }

    static f32 zero() { return _mm512_setzero_ps(); }
    static f32 set1(float x) { return _mm512_set1_ps(x); }
    static f32 load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(float* p, f32 x) { _mm512_storeu_ps(p, x); }
    static f32 add(f32 a, f32 b) { return _mm512_add_ps(a, b); }
    static f32 sub(f32 a, f32 b) { return _mm512_sub_ps(a, b); }
    static f32 mul(f32 a, f32 b) { return _mm512_mul_ps(a, b); }
    static f32 div(f32 a, f32 b) { return _mm512_div_ps(a, b); }
    static f32 max(f32 a, f32 b) { return _mm512_max_ps(a, b); }
    static f32 fma(f32 a, f32 b, f32 c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
    static f32 abs(f32 x) { return _mm512_abs_ps(x); }
    static f32 copysign(f32 magnitude, f32 sign) {
        const f32 bit = set1(-0.0f);
        return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
    }
    // p * 2^n, where n are the low bits of `shifted`; p and the product are normal numbers.
    static f32 add_exponent(f32 p, f32 shifted) {
        return _mm512_castsi512_ps(_mm512_add_epi32(
            _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
    }
    // y, or 0 where x < floor.
    static f32 keep_not_below(f32 y, f32 x, float floor) {
        return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, set1(floor), _CMP_NLT_UQ), y);
    }
    // Lanes are numbered from first_lane; those outside [begin, end) become -inf.
    static f32 keep_range(f32 x, int first_lane, int begin, int end) {
        const __m512i lane = _mm512_add_epi32(
            _mm512_set1_epi32(first_lane),
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        const __mmask16 keep = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(begin)) &
                               _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
        return _mm512_mask_blend_ps(keep, set1(-__builtin_inff()), x);
    }
    static float max_of_lanes(f32 x) { return _mm512_reduce_max_ps(x); }
    // Sixteen numbers to one: halves are added, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
    static float sum_of_sixteen(const float* p) {
        const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
        const __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    static bool any_nan(f32 x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0; }

    static f32 load_f16(const uint16_t* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static f32 load_bf16(const uint16_t* p) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    static void store_f16(uint16_t* p, f32 x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                            _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    static void store_bf16(uint16_t* p, f32 x) {
        const __m512i bits = _mm512_castps_si512(x);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i even =
            _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        const __m512i rounded = _mm512_mask_blend_epi32(nan, even, quiet);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
    }
    static i32 load_u8(const uint8_t* p) {
        return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static f32 to_float(i32 x) { return _mm512_cvtepi32_ps(x); }
    // Up to 32 numbers in registers; the index is the low bits.
    template <int kEntries>
    struct Table {
        explicit Table(const float* p)
            : low(_mm512_loadu_ps(p)), high(kEntries > 16 ? _mm512_loadu_ps(p + 16) : low) {}
        f32 look_up(i32 index) const {
            if constexpr (kEntries > 16) return _mm512_permutex2var_ps(low, index, high);
            return _mm512_permutexvar_ps(index, low);
        }
        f32 low, high;
    };
    // 0 for u = 0, else mantissa * 2^(u / 16 - octaves), all normal numbers.
    static f32 sixteenths(i32 u, f32 mantissa, int octaves) {
        const __m512i octave =
            _mm512_sub_epi32(_mm512_srli_epi32(u, 4), _mm512_set1_epi32(octaves));
        const __m512i bits =
            _mm512_add_epi32(_mm512_castps_si512(mantissa), _mm512_slli_epi32(octave, 23));
        return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(_mm512_test_epi32_mask(u, u), bits));
    }
};

}  // namespace quire::kernels
