// Query rows on their way in and out: numbers of three kinds, strides, and the codec's rotation.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "codec/hot/scale.h"
#include "kernels/attention_math.h"
#include "kernels/cuda/attn/feed.cuh"

namespace quire::kernels::cuda {

__device__ __forceinline__ float load_number(const void* p, Numbers element, int64_t at) {
    switch (element) {
        case Numbers::f32:
            return static_cast<const float*>(p)[at];
        case Numbers::f16:
            return __half2float(static_cast<const __half*>(p)[at]);
        default:
            return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[at]);
    }
}
__device__ __forceinline__ void store_number(void* p, Numbers element, int64_t at, float x) {
    switch (element) {
        case Numbers::f32:
            static_cast<float*>(p)[at] = x;
            return;
        case Numbers::f16:
            static_cast<__half*>(p)[at] = __float2half_rn(x);
            return;
        default:
            static_cast<__nv_bfloat16*>(p)[at] = __float2bfloat16_rn(x);
    }
}

// A warp's row: lane has the numbers at lane + 32 i.
template <int kHeadDim>
struct WarpRow {
    static constexpr int kOwn = kHeadDim / 32;
    float x[kOwn];

    // Times a Hadamard matrix, not normed.
    __device__ __forceinline__ void rotate() {
        constexpr int kBlock = codec::hot::hadamard_block(kHeadDim);
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll
        for (int h = 1; h < 32 && h < kBlock; h *= 2) {
#pragma unroll
            for (float& own : x) {
                const float other = __shfl_xor_sync(0xffffffff, own, h);
                own = (lane & h) == 0 ? own + other : other - own;
            }
        }
#pragma unroll
        for (int h = 32; h < kBlock; h *= 2) {
#pragma unroll
            for (int i = 0; i < kOwn; ++i) {
                if ((32 * i & h) != 0) continue;
                const float a = x[i], b = x[i + h / 32];
                x[i] = a + b;
                x[i + h / 32] = a - b;
            }
        }
    }
};

// Which rows a pass over a KV head's keys has, and where they are.
struct RowsOfPass {
    int32_t request, kv_head, first;  // row of all rows of the KV head
    int32_t all, group;               // rows; query heads of a KV head

    __device__ RowsOfPass(const DecodeParams& p, int32_t request_, int32_t kv_head_, int32_t first_)
        : request(request_),
          kv_head(kv_head_),
          first(first_),
          all(rows_of_head(p)),
          group(p.n_heads / p.kv_heads) {}

    __device__ bool has(int32_t row) const { return first + row < all; }
    __device__ int32_t query_of(int32_t row) const { return (first + row) / group; }
    __device__ int64_t at(const DecodeParams& p, int32_t row, int64_t token_stride,
                          int64_t head_stride) const {
        const int64_t token = int64_t{request} * p.n_queries + query_of(row);
        return token * token_stride + (kv_head * group + (first + row) % group) * head_stride;
    }
};

// By a warp: a row's sums in the codec's space, its largest score and sum of weights, to out.
template <int kHeadDim>
__device__ void write_row(const DecodeParams& p, const RowsOfPass& rows, int32_t row,
                          WarpRow<kHeadDim> sums, float top, float sum) {
    constexpr float kNorm = codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    sums.rotate();
    const float* mean = p.v_mean == nullptr ? nullptr : p.v_mean + int64_t{rows.kv_head} * kHeadDim;
    const int64_t to = rows.at(p, row, p.out_token_stride, p.out_head_stride);
    const float norm = sum > 0 ? kNorm / sum : 0.0f;
#pragma unroll
    for (int i = 0; i < WarpRow<kHeadDim>::kOwn; ++i) {
        const int32_t d = lane + 32 * i;
        const float x = sums.x[i] * norm + (mean != nullptr && sum > 0 ? mean[d] : 0.0f);
        store_number(p.out, p.element, to + d, x);
    }
    if (lane == 0 && p.lse != nullptr)
        p.lse[rows.at(p, row, p.n_heads, 1)] = sum > 0 ? (top + log2f(sum)) / kLog2e : -INFINITY;
}

}  // namespace quire::kernels::cuda
