// The kernel of NVFP4: a thread has eight numbers at a time, two threads a block of 16.
#pragma once

#include "codec/fp4/fp4.h"
#include "kernels/cuda/codec/float_codes.cuh"
#include "kernels/cuda/codec/interop_rows.cuh"
#include "kernels/cuda/ptx/floats.cuh"

namespace quire::kernels::cuda {

// E2M1 of a number over its block's step: nearest, ties to even, at most 6; a NaN is 0.
__device__ __forceinline__ uint32_t e2m1_code(float x, float inverse) {
    const float magnitude = fabsf(x * inverse);
    const uint32_t word = __float_as_uint(fminf(magnitude, 6.0f));
    // From 1 on a float with one bit of mantissa, below it multiples of a half.
    const uint32_t normal = ((word + 0x1fffff + (word >> 22 & 1)) >> 22) - 252;
    const uint32_t halves = __float_as_uint(__uint_as_float(word) + 0x1p22f) - 0x4a800000;
    const uint32_t index = magnitude >= 1.0f ? normal : isnan(magnitude) ? 0 : halves;
    return index | (__float_as_uint(x) >> 28 & 8);
}

__device__ __forceinline__ float e4m3_value(uint32_t code) {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(f16_of_e4m3(code))));
}

// Grid: y is 0 for K, 1 for V.
__global__ void __launch_bounds__(kInteropThreads) fp4_kernel(const EncodeInteropParams p) {
    const FloatRows& rows = blockIdx.y == 0 ? p.k : p.v;
    if (rows.rows == nullptr) return;
    const InteropRow row(p, rows);
    codec::Geometry geometry;
    geometry.head_dim = static_cast<uint32_t>(p.head_dim);
    geometry.block_tokens = static_cast<uint32_t>(p.block_tokens);
    constexpr auto kKind = codec::fp4::Kind::nvfp4;
    const codec::fp4::Side side = blockIdx.y == 0 ? codec::fp4::k_side(kKind, geometry, {})
                                                  : codec::fp4::v_side(kKind, geometry, {});
    const float global = rows.scales[row.head];
    const uint32_t t = lane_of_warp() % 4;
    bool finite = true;
    for (uint32_t first = 0; first < geometry.head_dim; first += 32) {
        const uint32_t at = first + 8 * t;
        const bool mine = row.written && at < geometry.head_dim;
        float x[8], top = 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
            x[i] = mine ? number_at(p.element, rows.rows, row.numbers + at + i) : 0.0f;
            const bool is_finite = fabsf(x[i]) < INFINITY;
            finite = finite && is_finite;
            top = is_finite ? fmaxf(top, fabsf(x[i])) : top;
        }
        top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 1));
        const uint32_t scale =
            careful<E4m3Code>(top * codec::fp4::kSixth * __fdiv_rn(1.0f, global));
        const float step = e4m3_value(scale) * global;
        const float inverse = step == 0 ? 0.0f : __fdiv_rn(1.0f, step);
        uint32_t codes = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) codes |= e2m1_code(x[i], inverse) << (4 * i);
        if (!mine) continue;
        *reinterpret_cast<uint32_t*>(row.page + codec::fp4::codes_at(side, geometry, row.token) +
                                     at / 2) = inverse == 0 ? 0 : codes;
        if (t % 2 == 0)
            row.page[codec::fp4::scale_at(side, kKind, geometry, row.token, at / 16)] =
                static_cast<std::byte>(scale);
    }
    const uint32_t all = __ballot_sync(kWholeWarp, finite) >> (lane_of_warp() & 28) & 15;
    if (row.written && t == 0 && all != 15 && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
}

}  // namespace quire::kernels::cuda
