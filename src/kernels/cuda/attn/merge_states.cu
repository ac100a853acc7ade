// A thread has eight numbers of a row.
#include "kernels/cuda/attn/merge_states.h"
#include "kernels/cuda/attn/rows.cuh"
#include "kernels/cuda/launch_kernel.cuh"
#include "kernels/cuda/ptx/exp2.cuh"
#include "kernels/cuda/ptx/grid.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int32_t kThreads = 256;

__device__ float largest_of(const MergeParams& p, int64_t row) {
    float largest = -INFINITY;
    for (int32_t i = 0; i < p.n_parts; ++i) largest = fmaxf(largest, p.parts[i].lse[row]);
    return largest;
}

__global__ void __launch_bounds__(kThreads) merge_kernel(const __grid_constant__ MergeParams p) {
    wait_for_kernels_before();
    const int32_t vectors = p.head_dim / 8;
    const int64_t vector = int64_t{blockIdx.x} * kThreads + threadIdx.x, row = vector / vectors;
    if (row >= int64_t{p.n_tokens} * p.n_heads) return;
    const int64_t token = row / p.n_heads, head = row % p.n_heads, dim = vector % vectors * 8;
    const float largest = largest_of(p, row), base = largest == -INFINITY ? 0.0f : largest;
    float sums[8] = {}, weight = 0;
#pragma unroll 1
    for (int32_t i = 0; i < p.n_parts; ++i) {
        const MergePart& part = p.parts[i];
        const float scale = exp2_fast((part.lse[row] - base) * kLog2e);
        if (scale == 0) continue;  // a NaN shows
        float x[8];
        const int64_t at = token * part.token_stride + head * part.head_stride + dim;
        numbers_of(load_eight(part.out, p.parts_element, at), p.parts_element, x);
        weight += scale;
#pragma unroll
        for (int k = 0; k < 8; ++k) sums[k] = fmaf(x[k], scale, sums[k]);
    }
    const float norm = weight == 0 ? 0.0f : 1.0f / weight;
#pragma unroll
    for (float& x : sums) x *= norm;
    store_eight(p.out, p.element, token * p.token_stride + head * p.head_stride + dim, sums);
    if (dim == 0 && p.lse != nullptr) p.lse[row] = weight == 0 ? -INFINITY : base + logf(weight);
}

}  // namespace

int merge_states(const MergeParams& p, CUstream_st* stream) {
    const int64_t vectors = int64_t{p.n_tokens} * p.n_heads * (p.head_dim / 8);
    if (vectors == 0) return 0;
    const auto blocks = static_cast<int32_t>((vectors + kThreads - 1) / kThreads);
    return launch_dependent(merge_kernel, blocks, kThreads, 0, stream, p);
}

}  // namespace quire::kernels::cuda
