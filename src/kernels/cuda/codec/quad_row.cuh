// A row of head_dim numbers in the registers of four threads, and eight rows in a warp.
//
// Lane 4g + t has row g. Of each 16 numbers it has those at 2t, 2t + 1, 2t + 8, 2t + 9, as a matrix
// product leaves them: x[v][q] is number 16v + 2t + (q & 1) + 8 (q >> 1). So the oracle's sums in
// sixteen lanes are chains of one thread each, and butterflies need two exchanges of eight.
//
// All threads of a warp call together. Plain additions and multiplications are not fused: the files
// are compiled so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/hot/scale.h"
#include "kernels/cuda/ptx/floats.cuh"

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

// The same in shared memory, where loops over it need not be unrolled: instructions of unrolled
// ones did not fit into the instruction cache. A thread reads what it wrote.
template <int kHeadDim>
struct StoredRow {
    static constexpr int kVectors = kHeadDim / 16;
    static constexpr uint32_t kWarpBytes = kVectors * 512;
    float4* mine;

    __device__ __forceinline__ StoredRow(std::byte* memory, const QuadRow<kHeadDim>& row)
        : mine(reinterpret_cast<float4*>(memory) + lane_of_warp()) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
            mine[v * 32] = make_float4(row.x[v][0], row.x[v][1], row.x[v][2], row.x[v][3]);
    }
    // visit(v, x), x being four numbers.
    template <int kUnroll, class Visit>
    __device__ __forceinline__ void for_each_four(Visit visit) const {
#pragma unroll kUnroll
        for (int v = 0; v < kVectors; ++v) {
            const float4 four = mine[v * 32];
            const float x[4] = {four.x, four.y, four.z, four.w};
            visit(v, x);
        }
    }
    template <int kUnroll, class Visit>
    __device__ __forceinline__ void for_each(Visit visit) const {
        for_each_four<kUnroll>([&](int, const float(&x)[4]) {
#pragma unroll
            for (int q = 0; q < 4; ++q) visit(x[q], q);
        });
    }
};

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(kWholeWarp, x, 1);
    return x + __shfl_xor_sync(kWholeWarp, x, 2);
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

// The tables of scales, an entry a thread.
struct ScaleTables {
    float sixteenth;  // kSixteenth[lane % 16]
    float inverse;    // kInverseSixteenth[lane % 16]

    __device__ static ScaleTables load() {
        const uint32_t i = lane_of_warp() % 16;
        return {codec::hot::kSixteenth[i], codec::hot::kInverseSixteenth[i]};
    }
    // codec::hot::scale_of and inverse_scale_of; any u.
    template <int kBits>
    __device__ __forceinline__ float scale(int u) const {
        return __shfl_sync(kWholeWarp, sixteenth, u & 15) *
               codec::hot::pow2((u >> 4) - codec::hot::octaves(kBits));
    }
    template <int kBits>
    __device__ __forceinline__ float inverse_scale(int u) const {
        return __shfl_sync(kWholeWarp, inverse, u & 15) *
               codec::hot::pow2(codec::hot::octaves(kBits) - (u >> 4));
    }
    // codec::hot::scale_at_least.
    template <int kBits>
    __device__ __forceinline__ int scale_at_least(float amplitude) const {
        const uint32_t word = __float_as_uint(amplitude);
        const float mantissa = __uint_as_float((word & 0x7fffff) | 0x3f800000);
        int steps = 0;  // entries that are less: 0 to 16
#pragma unroll
        for (int half = 8; half > 0; half /= 2)
            steps += __shfl_sync(kWholeWarp, sixteenth, steps + half - 1) < mantissa ? half : 0;
        steps += __shfl_sync(kWholeWarp, sixteenth, steps & 15) < mantissa ? 1 : 0;
        return 16 * (static_cast<int>(word >> 23) - 127 + codec::hot::octaves(kBits)) + steps;
    }
};

}  // namespace quire::kernels::cuda
