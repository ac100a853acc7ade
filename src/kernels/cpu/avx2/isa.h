// The AVX2 vocabulary (with FMA and F16C): what cpu/generic is written in, eight lanes at a time.
#pragma once

#include <cstdint>

#include <immintrin.h>

#include "codec/isa/avx2.h"

namespace quire::kernels {

struct Avx2 {
    using Codec = codec::Avx2;  // the vocabulary of the codecs' functions
    using f32 = __m256;
    using i32 = __m256i;
    static constexpr int kLanes = 8;
    // Most accumulators a micro-kernel of `rows` rows may hold per row, in groups of 16 keys or
    // dims: sixteen registers allow 3 rows x 4 vectors or 6 rows x 2.
    static constexpr int groups_per_pass(int rows) { return rows <= 3 ? 2 : 1; }

    static f32 zero() { return _mm256_setzero_ps(); }
    static f32 set1(float x) { return _mm256_set1_ps(x); }
    static f32 load(const float* p) { return _mm256_loadu_ps(p); }
    static void store(float* p, f32 x) { _mm256_storeu_ps(p, x); }
    static f32 add(f32 a, f32 b) { return _mm256_add_ps(a, b); }
    static f32 sub(f32 a, f32 b) { return _mm256_sub_ps(a, b); }
    static f32 mul(f32 a, f32 b) { return _mm256_mul_ps(a, b); }
    static f32 div(f32 a, f32 b) { return _mm256_div_ps(a, b); }
    static f32 max(f32 a, f32 b) { return _mm256_max_ps(a, b); }
    static f32 fma(f32 a, f32 b, f32 c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
    static f32 abs(f32 x) { return _mm256_andnot_ps(set1(-0.0f), x); }
    static f32 copysign(f32 magnitude, f32 sign) {
        const f32 bit = set1(-0.0f);
        return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
    }
    // p * 2^n, where n are the low bits of `shifted`; p and the product are normal numbers.
    static f32 add_exponent(f32 p, f32 shifted) {
        return _mm256_castsi256_ps(_mm256_add_epi32(
            _mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
    }
    // y, or 0 where x < floor.
    static f32 keep_not_below(f32 y, f32 x, float floor) {
        return _mm256_and_ps(y, _mm256_cmp_ps(x, set1(floor), _CMP_NLT_UQ));
    }
    // Lanes are numbered from first_lane; those outside [begin, end) become -inf.
    static f32 keep_range(f32 x, int first_lane, int begin, int end) {
        const __m256i lane = _mm256_add_epi32(_mm256_set1_epi32(first_lane),
                                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), lane);
        const __m256i keep =
            _mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane));
        return _mm256_blendv_ps(set1(-__builtin_inff()), x, _mm256_castsi256_ps(keep));
    }
    static float max_of_lanes(f32 x) {
        __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
    }
    // Sixteen numbers to one: halves are added, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
    static float sum_of_sixteen(const float* p) {
        const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
        const __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    static bool any_nan(f32 x) {
        return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0;
    }

    static f32 load_f16(const uint16_t* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static f32 load_bf16(const uint16_t* p) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
    static void store_f16(uint16_t* p, f32 x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    static void store_bf16(uint16_t* p, f32 x) {
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i even =
            _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
        const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
        const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
        const __m256i rounded =
            _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(
                                  _mm256_castsi256_ps(even), _mm256_castsi256_ps(quiet), nan)),
                              16);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                         _mm_packus_epi32(_mm256_castsi256_si128(rounded),
                                          _mm256_extracti128_si256(rounded, 1)));
    }
    static i32 load_u8(const uint8_t* p) {
        return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    }
    static f32 to_float(i32 x) { return _mm256_cvtepi32_ps(x); }
    // Up to 32 numbers in registers; the index is the low bits. Tables repeat themselves.
    template <int kEntries>
    struct Table {
        static constexpr int kRegisters = kEntries > 16 ? 4 : kEntries > 8 ? 2 : 1;
        explicit Table(const float* p) {
            for (int i = 0; i < kRegisters; ++i) part[i] = _mm256_loadu_ps(p + 8 * i);
        }
        f32 look_up(i32 index) const {
            const auto pair = [&](int i) {
                const f32 low = _mm256_permutevar8x32_ps(part[i], index);
                if constexpr (kRegisters == 1) return low;
                return _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(part[i + 1], index),
                                        _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
            };
            if constexpr (kRegisters < 4)
                return pair(0);
            else
                return _mm256_blendv_ps(pair(0), pair(2),
                                        _mm256_castsi256_ps(_mm256_slli_epi32(index, 27)));
        }
        f32 part[kRegisters];
    };
    // 0 for u = 0, else mantissa * 2^(u / 16 - octaves), all normal numbers.
    static f32 sixteenths(i32 u, f32 mantissa, int octaves) {
        const __m256i octave =
            _mm256_sub_epi32(_mm256_srli_epi32(u, 4), _mm256_set1_epi32(octaves));
        const __m256i bits =
            _mm256_add_epi32(_mm256_castps_si256(mantissa), _mm256_slli_epi32(octave, 23));
        return _mm256_castsi256_ps(
            _mm256_andnot_si256(_mm256_cmpeq_epi32(u, _mm256_setzero_si256()), bits));
    }
};

}  // namespace quire::kernels
