// What AVX-512 adds to its vocabulary for ec, and rANS with sixteen states in a register.
#pragma once

#include "codec/ec/generic.h"
#include "codec/isa/avx512.h"

namespace quire::codec::ec {

struct Avx512Words : Avx512 {
    static constexpr uint32_t kTileVectors = 4;

    static void store_bytes(uint8_t* p, i32 x) { _mm512_storeu_si512(p, x); }

    // 16 rows of 16 numbers become columns.
    static void transpose(const float* in, size_t in_stride, float* out, size_t out_stride) {
        __m512 a[16], b[16];
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(in + i * in_stride);
#pragma GCC unroll 8
        for (size_t i = 0; i < 16; i += 2) {
            b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
        }
#pragma GCC unroll 4
        for (size_t i = 0; i < 16; i += 4) {
            a[i] = pairs<0>(b[i], b[i + 2]);
            a[i + 1] = pairs<1>(b[i], b[i + 2]);
            a[i + 2] = pairs<0>(b[i + 1], b[i + 3]);
            a[i + 3] = pairs<1>(b[i + 1], b[i + 3]);
        }
        // a[4 g + c] has columns c, c + 4, ... of rows 4 g to 4 g + 3.
#pragma GCC unroll 4
        for (size_t c = 0; c < 4; ++c) {
            const __m512 low0 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x44);
            const __m512 low1 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x44);
            const __m512 high0 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xee);
            const __m512 high1 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xee);
            _mm512_storeu_ps(out + c * out_stride, _mm512_shuffle_f32x4(low0, low1, 0x88));
            _mm512_storeu_ps(out + (c + 4) * out_stride, _mm512_shuffle_f32x4(low0, low1, 0xdd));
            _mm512_storeu_ps(out + (c + 8) * out_stride, _mm512_shuffle_f32x4(high0, high1, 0x88));
            _mm512_storeu_ps(out + (c + 12) * out_stride, _mm512_shuffle_f32x4(high0, high1, 0xdd));
        }
    }

 private:
    template <int kHigh>
    static __m512 pairs(__m512 a, __m512 b) {
        const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
        return _mm512_castpd_ps(kHigh ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
    }
};

}  // namespace quire::codec::ec
