// Query rows on their way in and out: numbers of three kinds, strides, and the codec's rotation.
//
// What a warp runs once or twice costs more than its instructions: each 128 bytes of them come from
// far away, about a hundred clocks. Reading queries took 15 microseconds when its loops were
// unrolled. So loops over rows are not, here and in merge.cuh; a register that the next round
// needs is moved to where this round had it.
#pragma once

#include <bit>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "codec/hot/scale.h"
#include "kernels/attention_math.h"
#include "kernels/cuda/attn/feed.cuh"

namespace quire::kernels::cuda {

// Eight numbers that follow each other, as they lie in memory.
struct RawEight {
    uint4 low, high;  // high: of f32 only
};

__device__ __forceinline__ int64_t number_bytes(Numbers element) {
    return element == Numbers::f32 ? 4 : 2;
}
__device__ __forceinline__ RawEight load_eight(const void* p, Numbers element, int64_t at) {
    const auto* from = reinterpret_cast<const uint4*>(static_cast<const std::byte*>(p) +
                                                      at * number_bytes(element));
    return {__ldg(from), element == Numbers::f32 ? __ldg(from + 1) : uint4{}};
}
__device__ __forceinline__ void numbers_of(const RawEight& raw, Numbers element, float (&x)[8]) {
    const uint32_t words[8] = {raw.low.x,  raw.low.y,  raw.low.z,  raw.low.w,
                               raw.high.x, raw.high.y, raw.high.z, raw.high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t half = i % 2 == 0 ? words[i / 2] & 0xffff : words[i / 2] >> 16;
        x[i] = element == Numbers::f32 ? __uint_as_float(words[i])
               : element == Numbers::f16
                   ? __half2float(__ushort_as_half(static_cast<uint16_t>(half)))
                   : __uint_as_float(half << 16);
    }
}
__device__ __forceinline__ uint32_t number_pair(bool bf16, float low, float high) {
    const __half2 halves = __floats2half2_rn(low, high);
    const __nv_bfloat162 bf = __floats2bfloat162_rn(low, high);
    return bf16 ? *reinterpret_cast<const uint32_t*>(&bf)
                : *reinterpret_cast<const uint32_t*>(&halves);
}

__device__ __forceinline__ void store_eight(void* p, Numbers element, int64_t at,
                                            const float (&x)[8]) {
    auto* to = reinterpret_cast<uint4*>(static_cast<std::byte*>(p) + at * number_bytes(element));
    if (element == Numbers::f32) {
        auto* floats = reinterpret_cast<float4*>(to);
        floats[0] = {x[0], x[1], x[2], x[3]};
        floats[1] = {x[4], x[5], x[6], x[7]};
        return;
    }
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        words[i] = number_pair(element == Numbers::bf16, x[2 * i], x[2 * i + 1]);
    }
    *to = {words[0], words[1], words[2], words[3]};
}

// A warp has some rows at once: each lane eight numbers of one, from dim() on.
template <int kHeadDim>
struct RowsOfWarp {
    static constexpr int kLanes = kHeadDim / 8;  // of a row
    // Rows: a tile of eight has a multiple of them.
    static constexpr int kAtOnce = std::bit_floor(32u / kLanes);
    static constexpr int kBlock = codec::hot::hadamard_block(kHeadDim);

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }
    // Some lanes have nothing to do where head_dim is not a power of two.
    static __device__ __forceinline__ bool works() { return lane() < kLanes * kAtOnce; }
    static __device__ __forceinline__ int row() { return min(lane() / kLanes, kAtOnce - 1); }
    static __device__ __forceinline__ int dim() { return lane() % kLanes * 8; }

    // Times a Hadamard matrix, not normed. All lanes.
    static __device__ __forceinline__ void rotate(float (&x)[8]) {
#pragma unroll
        for (int h = 1; h < 8; h *= 2) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if ((i & h) != 0) continue;
                const float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
        }
#pragma unroll 1
        for (int h = 1; h < kBlock / 8; h *= 2) {
            const float sign = (lane() & h) == 0 ? 1.0f : -1.0f;
#pragma unroll
            for (float& own : x) own = fmaf(sign, own, __shfl_xor_sync(0xffffffff, own, h));
        }
    }
};

// Which rows a pass over a KV head's keys has, and where they are.
struct RowsOfPass {
    int32_t request, kv_head, first;  // row of all rows of the KV head
    int32_t all, group;               // rows; query heads of a KV head
    uint32_t per_group;               // reciprocal_of(group)

    __device__ RowsOfPass(const DecodePlan& plan, int32_t request_, int32_t kv_head_,
                          int32_t first_)
        : request(request_),
          kv_head(kv_head_),
          first(first_),
          all(plan.rows),
          group(plan.group),
          per_group(plan.per_group) {}

    __device__ bool has(int32_t row) const { return first + row < all; }
    __device__ int32_t query_of(int32_t row) const { return query_of_row(first + row, per_group); }
    __device__ int64_t at(const DecodeParams& p, int32_t row, int64_t token_stride,
                          int64_t head_stride) const {
        const int32_t query = query_of(row);
        const int64_t token = int64_t{request} * p.n_queries + query;
        const int32_t head = kv_head * group + first + row - query * group;
        return token * token_stride + head * head_stride;
    }
};

// A row's sums in the codec's space and their sum of weights, to what they are but for the mean.
// All lanes.
template <int kHeadDim>
__device__ __forceinline__ void finish_row(bool codes, float out_norm, float (&sums)[8],
                                           float sum) {
    using Rows = RowsOfWarp<kHeadDim>;
    if (codes) Rows::rotate(sums);
    const float norm = sum == 0 ? 0.0f : out_norm / sum;  // a NaN shows
#pragma unroll
    for (float& x : sums) x *= norm;
}
// means: [kv_heads][head_dim], or null.
template <int kHeadDim>
__device__ __forceinline__ void add_mean(const float* means, int32_t kv_head, float (&sums)[8],
                                         float sum) {
    if (means == nullptr || !(sum > 0)) return;
    const float* mean = means + int64_t{kv_head} * kHeadDim + RowsOfWarp<kHeadDim>::dim();
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] += __ldg(mean + i);
}
__device__ __forceinline__ float natural_lse(float top, float sum) {
    return sum == 0 ? -INFINITY : (top + log2f(sum)) / kLog2e;
}

// A row's sums in the codec's space, its largest score and sum of weights, to out. All lanes.
template <int kHeadDim>
__device__ __forceinline__ void write_row(const DecodePlan& plan, const RowsOfPass& rows,
                                          int32_t row, float (&sums)[8], float top, float sum) {
    using Rows = RowsOfWarp<kHeadDim>;
    const DecodeParams& p = plan.p;
    const float v_scale = p.v_scales == nullptr ? 1.0f : __ldg(p.v_scales + rows.kv_head);
    finish_row<kHeadDim>(plan.codes, plan.out_norm * v_scale, sums, sum);
    if (!Rows::works() || !rows.has(row)) return;
    add_mean<kHeadDim>(p.v_mean, rows.kv_head, sums, sum);
    const int64_t to = rows.at(p, row, p.out_token_stride, p.out_head_stride) + Rows::dim();
    store_eight(p.out, p.element, to, sums);
    if (Rows::dim() == 0 && p.lse != nullptr)
        p.lse[rows.at(p, row, p.n_heads, 1)] = natural_lse(top, sum);
}

}  // namespace quire::kernels::cuda
