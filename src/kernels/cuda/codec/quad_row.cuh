// A row of head_dim numbers in the registers of four threads, and eight rows in a warp.
//
// Lane 4g + t has row g. Of each 16 numbers it has those at 2t, 2t + 1, 2t + 8, 2t + 9, as a matrix
// product leaves them: x[v][q] is number 16v + 2t + (q & 1) + 8 (q >> 1). So the oracle's sums in
// sixteen lanes are chains of one thread each, and butterflies need two exchanges of eight.
//
// All threads of a warp call together. Plain additions and multiplications are not fused: the files
// are compiled so.
#pragma once

#include <cstdint>

#include "codec/hot/scale.h"

namespace quire::kernels::cuda {

inline constexpr uint32_t kWholeWarp = 0xffffffffu;

template <int kHeadDim>
struct QuadRow {
    static constexpr int kVectors = kHeadDim / 16;
    float x[kVectors][4];
};

__device__ __forceinline__ uint32_t lane_of_warp() {
    return threadIdx.x % 32;
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(kWholeWarp, x, 1);
    return x + __shfl_xor_sync(kWholeWarp, x, 2);
}

// A NaN when either is.
__device__ __forceinline__ float max_or_nan(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
__device__ __forceinline__ float quad_max_or_nan(float x) {
    x = max_or_nan(x, __shfl_xor_sync(kWholeWarp, x, 1));
    return max_or_nan(x, __shfl_xor_sync(kWholeWarp, x, 2));
}

// The oracle's fold of sixteen sums, of which this thread has four: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
__device__ __forceinline__ float fold_sums(const float (&sums)[4]) {
    float a = sums[0] + sums[2], b = sums[1] + sums[3];
    a += __shfl_xor_sync(kWholeWarp, a, 2);
    b += __shfl_xor_sync(kWholeWarp, b, 2);
    a += __shfl_xor_sync(kWholeWarp, a, 1);
    b += __shfl_xor_sync(kWholeWarp, b, 1);
    return a + b;
}

// The Hadamard transform of each block, distances 1, 2, 4, ... in this order. Returns the largest
// magnitude of the thread's numbers, a NaN when one is; the last step has it cheaply, for |a + b|
// or |a - b| is |a| + |b|, rounding included.
template <int kHeadDim>
__device__ __forceinline__ float rotate(QuadRow<kHeadDim>& row) {
    constexpr int kBlock = static_cast<int>(codec::hot::hadamard_block(kHeadDim));
    constexpr int kVectors = QuadRow<kHeadDim>::kVectors;
    const uint32_t t = lane_of_warp() % 4;
    const float by_two = (t & 1) == 0 ? 1.0f : -1.0f, by_four = (t & 2) == 0 ? 1.0f : -1.0f;
    float top = 0.0f;
    const auto cross = [&](float& a, float& b, bool last) {
        if (last) top = max_or_nan(top, fabsf(a) + fabsf(b));
        const float sum = a + b;
        b = a - b;
        a = sum;
    };
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        float(&x)[4] = row.x[v];
        cross(x[0], x[1], false);
        cross(x[2], x[3], false);
#pragma unroll
        for (float& number : x)
            number = fmaf(number, by_two, __shfl_xor_sync(kWholeWarp, number, 1));
#pragma unroll
        for (float& number : x)
            number = fmaf(number, by_four, __shfl_xor_sync(kWholeWarp, number, 2));
        cross(x[0], x[2], kBlock == 16);
        cross(x[1], x[3], kBlock == 16);
    }
#pragma unroll
    for (int h = 1; h < kBlock / 16; h *= 2) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if ((v & h) != 0) continue;
#pragma unroll
            for (int q = 0; q < 4; ++q) cross(row.x[v][q], row.x[v + h][q], h == kBlock / 32);
        }
    }
    constexpr float kNorm = codec::hot::hadamard_norm(kBlock);
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
        for (float& number : row.x[v]) number *= kNorm;
    return top * kNorm;
}

// What threads keep of the tables of scales.
struct ScaleTables {
    float sixteenth[4];  // kSixteenth[4t ..]
    float inverse;       // kInverseSixteenth[lane % 16]

    __device__ static ScaleTables load() {
        ScaleTables tables;
        const uint32_t lane = lane_of_warp();
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
            tables.sixteenth[i] = codec::hot::kSixteenth[lane % 4 * 4 + i];
        tables.inverse = codec::hot::kInverseSixteenth[lane % 16];
        return tables;
    }
    // codec::hot::inverse_scale_of; any u.
    template <int kBits>
    __device__ __forceinline__ float inverse_scale(int u) const {
        const float mantissa = __shfl_sync(kWholeWarp, inverse, u & 15, 16);
        return mantissa * codec::hot::pow2(codec::hot::octaves(kBits) - (u >> 4));
    }
    template <int kBits>
    __device__ __forceinline__ float scale(int u) const {
        const auto word = static_cast<uint32_t>(u);
        return codec::hot::kSixteenth[word & 15] *
               codec::hot::pow2((u >> 4) - codec::hot::octaves(kBits));
    }
    // codec::hot::scale_at_least, for the row of the quad.
    template <int kBits>
    __device__ __forceinline__ int scale_at_least(float amplitude) const {
        const uint32_t word = __float_as_uint(amplitude);
        const float mantissa = __uint_as_float((word & 0x7fffff) | 0x3f800000);
        int steps = 0;
#pragma unroll
        for (const float step : sixteenth) steps += step < mantissa ? 1 : 0;
        steps += __shfl_xor_sync(kWholeWarp, steps, 1);
        steps += __shfl_xor_sync(kWholeWarp, steps, 2);
        return 16 * (static_cast<int>(word >> 23) - 127 + codec::hot::octaves(kBits)) + steps;
    }
};

}  // namespace quire::kernels::cuda
