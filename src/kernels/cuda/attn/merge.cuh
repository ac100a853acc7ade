// How results of a head that several workers share become one.
//
// A head's workers follow each other, so those of one block merge theirs first: the last of them to
// arrive does. Where the head goes on in other blocks, the last block to arrive merges once more.
// Both add in the order of workers: it makes no difference who is last. Nobody waits.
#pragma once

#include "kernels/cuda/attn/rows.cuh"
#include "kernels/cuda/attn/workspace.h"
#include "kernels/cuda/ptx/exp2.cuh"

namespace quire::kernels::cuda {

// A head (of one request and pass) in the work list, and who shares it.
struct SharedHead {
    int32_t first_worker, last_worker;  // of all
    int32_t first, last;                // of this block

    __device__ SharedHead(const WorkList& list, const Segment& segment, int32_t block_workers) {
        const int32_t begin = list.first_tile_of(segment.request, segment.head);
        first_worker = list.worker_of(begin);
        last_worker = list.worker_of(begin + list.tiles_of_head(segment.request) - 1);
        const int32_t block = static_cast<int32_t>(blockIdx.x) * block_workers;
        first = max(first_worker, block);
        last = min(last_worker, block + block_workers - 1);
    }
    // Where a worker's part of it is.
    __device__ int32_t slot(const WorkList& list, int32_t worker) const {
        return list.slot_of(worker, worker < last_worker);
    }
};

// One warp adds up n partial results, part(i) for i in order, and leaves the sum at `to`, which may
// be one of them.
template <int kHeadDim, int kRows, class Part>
__device__ void merge_parts(int32_t n, Part part, float* to) {
    constexpr int kNumbers = kRows * kHeadDim, kVectors = kNumbers / 4, kAtOnce = 4;
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    // A sum in units of `top`, and what is added to it.
    const auto rescale = [](float& top, float more) {
        const float largest = fmaxf(top, more), base = largest == -INFINITY ? 0.0f : largest;
        const float2 keep = {exp2_fast(top - base), exp2_fast(more - base)};
        top = largest;
        return keep;
    };
    for (int32_t first = lane; first < kVectors; first += 32 * kAtOnce) {
        float4 sum[kAtOnce] = {};
        float top[kAtOnce];
#pragma unroll
        for (float& x : top) x = -INFINITY;
#pragma unroll 2
        for (int32_t w = 0; w < n; ++w) {
            const float* from = part(w);
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) {
                const int32_t at = first + 32 * j;
                if (kVectors % (32 * kAtOnce) != 0 && at >= kVectors) continue;
                const float4 x = __ldcg(reinterpret_cast<const float4*>(from) + at);
                const float2 keep = rescale(top[j], __ldcg(from + kNumbers + at * 4 / kHeadDim));
                sum[j].x = fmaf(sum[j].x, keep.x, x.x * keep.y);
                sum[j].y = fmaf(sum[j].y, keep.x, x.y * keep.y);
                sum[j].z = fmaf(sum[j].z, keep.x, x.z * keep.y);
                sum[j].w = fmaf(sum[j].w, keep.x, x.w * keep.y);
            }
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
            const int32_t at = first + 32 * j;
            if (at < kVectors) reinterpret_cast<float4*>(to)[at] = sum[j];
        }
    }
    float top = -INFINITY, weight = 0;
    if (lane < kRows) {
#pragma unroll 4
        for (int32_t w = 0; w < n; ++w) {
            const float* from = part(w) + kNumbers + lane;
            const float2 keep = rescale(top, __ldcg(from));
            weight = fmaf(weight, keep.x, __ldcg(from + kRows) * keep.y);
        }
    }
    __syncwarp();  // everybody has read what is about to be written over
    if (lane < kRows) {
        to[kNumbers + lane] = top;
        to[kNumbers + kRows + lane] = weight;
    }
    __syncwarp();
}

// True for the last of n to arrive at a counter that began at zero. What the others wrote before is
// seen. All lanes.
__device__ inline bool arrive_last(int32_t* counter, int32_t n) {
    __threadfence();
    __syncwarp();
    int32_t before = 0;
    if (threadIdx.x % 32 == 0) before = atomicAdd(counter, 1);
    before = __shfl_sync(0xffffffff, before, 0);
    __threadfence();
    return before + 1 == n;
}

}  // namespace quire::kernels::cuda
