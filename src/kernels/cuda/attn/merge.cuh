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

// Workers whose partial results are put together: `first`, then first_step + i * step.
struct PartsOfHead {
    int32_t n = 1;
    int32_t first = 0, from = 0, step = 1;

    __device__ int32_t worker(int32_t i) const { return i == 0 ? first : from + i * step; }
};

// A head (of one request and pass) in the work list, and who shares it.
struct SharedHead {
    int32_t first_worker, last_worker;  // of all
    int32_t block_workers;

    __device__ SharedHead(const WorkList& list, const Segment& segment, int32_t block_workers_)
        : block_workers(block_workers_) {
        const int32_t begin = list.first_tile_of(segment.request, segment.head);
        first_worker = list.worker_of(begin);
        last_worker = list.worker_of(begin + list.tiles_of_head(segment.request) - 1);
    }
    // Where a worker's part of it is.
    __device__ int32_t slot(const WorkList& list, int32_t worker) const {
        return list.slot_of(worker, worker < last_worker);
    }
    // This block's workers.
    __device__ PartsOfHead in_block() const {
        const int32_t block = static_cast<int32_t>(blockIdx.x) * block_workers;
        const int32_t first = max(first_worker, block);
        return {min(last_worker, block + block_workers - 1) - first + 1, first, first, 1};
    }
    // The first worker of every block that has some.
    __device__ PartsOfHead of_blocks() const {
        const int32_t first_block = first_worker / block_workers;
        return {last_worker / block_workers - first_block + 1, first_worker,
                first_block * block_workers, block_workers};
    }
};

// One warp adds up n partial results, part(i) for i in order: done(row, eight sums, largest score,
// sum of weights) for each row, with lanes as in RowsOfWarp. It may write over what it gets.
template <int kHeadDim, int kRows, class Part, class Done>
__device__ __forceinline__ void merge_parts(int32_t n, Part part, Done done) {
    using Rows = RowsOfWarp<kHeadDim>;
    constexpr int kNumbers = kRows * kHeadDim, kPasses = kRows / Rows::kAtOnce;
    constexpr int kTogether = kPasses < 4 ? kPasses : 4;  // so many loads are on their way
#pragma unroll 1
    for (int32_t first = Rows::row(); first < kRows; first += kTogether * Rows::kAtOnce) {
        float sum[kTogether][8] = {}, top[kTogether], weight[kTogether] = {};
#pragma unroll
        for (float& x : top) x = -INFINITY;
#pragma unroll 2
        for (int32_t w = 0; w < n; ++w) {
            const float* from = part(w) + first * kHeadDim + Rows::dim();
            const float* rest = part(w) + kNumbers + first;
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                const auto* eight =
                    reinterpret_cast<const float4*>(from + j * Rows::kAtOnce * kHeadDim);
                const float4 x[2] = {__ldcg(eight), __ldcg(eight + 1)};
                const float more = __ldcg(rest + j * Rows::kAtOnce);
                const float largest = fmaxf(top[j], more);
                const float base = largest == -INFINITY ? 0.0f : largest;
                const float keep = exp2_fast(top[j] - base), scale = exp2_fast(more - base);
                top[j] = largest;
                weight[j] = fmaf(weight[j], keep, __ldcg(rest + kRows + j * Rows::kAtOnce) * scale);
                const float numbers[8] = {x[0].x, x[0].y, x[0].z, x[0].w,
                                          x[1].x, x[1].y, x[1].z, x[1].w};
#pragma unroll
                for (int i = 0; i < 8; ++i) sum[j][i] = fmaf(sum[j][i], keep, numbers[i] * scale);
            }
        }
        __syncwarp();  // everybody has read what is about to be written over
#pragma unroll 1
        for (int j = 0; j < kTogether; ++j) {
            done(first + j * Rows::kAtOnce, sum[0], top[0], weight[0]);
#pragma unroll
            for (int k = 0; k + 1 < kTogether; ++k) {
                top[k] = top[k + 1];
                weight[k] = weight[k + 1];
#pragma unroll
                for (int i = 0; i < 8; ++i) sum[k][i] = sum[k + 1][i];
            }
        }
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
