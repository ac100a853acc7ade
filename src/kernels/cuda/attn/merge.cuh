// How results of a head that several workers share become one.
//
// When all warps of a block have ended, all of them merge what the block has, some rows each. Where
// a head goes on in other blocks, the last block to arrive merges once more. Both add in the order
// of workers: it makes no difference who is last. Nobody waits for another block. (Merges by the
// last warp of a head, as soon as it had arrived, took 25 microseconds where a head is long: one
// warp has too few loads under way.)
#pragma once

#include "kernels/cuda/attn/rows.cuh"
#include "kernels/cuda/attn/workspace.h"
#include "kernels/cuda/ptx/exp2.cuh"

namespace quire::kernels::cuda {

// Workers whose partial results are put together: `first`, then from + i * step.
struct PartsOfHead {
    int32_t n = 1;
    int32_t first = 0, from = 0, step = 1;

    __device__ int32_t worker(int32_t i) const { return i == 0 ? first : from + i * step; }
};

// A head (of one request and pass) in the work list that this block has a part of.
struct SharedHead {
    int32_t request, head;
    int32_t first_worker, last_worker;  // of all
    int32_t first, last;                // of this block
    bool is_last_block;

    __device__ bool crosses() const { return first > first_worker || last < last_worker; }
    // Where a worker's part of it is.
    __device__ int32_t slot(const WorkList& list, int32_t worker) const {
        return list.slot_of(worker, worker < last_worker);
    }
    __device__ PartsOfHead in_block() const { return {last - first + 1, first, first, 1}; }
    // The first worker of every block that has some.
    __device__ PartsOfHead of_blocks(int32_t block_workers) const {
        const int32_t block = first_worker / block_workers;
        return {last_worker / block_workers - block + 1, first_worker, block * block_workers,
                block_workers};
    }
};

// What lanes have of a row, as in RowsOfWarp.
struct RowSums {
    float eight[8] = {};
    float top = -INFINITY, weight = 0;  // largest score, sum of weights
};

// Of n partial results, part(i) for i in order, row `row`; kAtOnce of them are on their way.
template <int kHeadDim, int kRows, int kAtOnce, class Part>
__device__ __forceinline__ RowSums merge_row(int32_t n, Part part, int32_t row) {
    RowSums sums;
    const int32_t dim = RowsOfWarp<kHeadDim>::dim();
#pragma unroll 1
    for (int32_t first = 0; first < n; first += kAtOnce) {
        float4 x[kAtOnce][2];
        float top[kAtOnce], weight[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const float* from = part(min(first + i, n - 1));
            const auto* eight = reinterpret_cast<const float4*>(from + row * kHeadDim + dim);
            x[i][0] = __ldcg(eight);
            x[i][1] = __ldcg(eight + 1);
            top[i] = __ldcg(from + kRows * kHeadDim + row);
            weight[i] = __ldcg(from + kRows * (kHeadDim + 1) + row);
        }
        float largest = sums.top;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) largest = fmaxf(largest, top[i]);
        const float base = largest == -INFINITY ? 0.0f : largest;
        const float keep = exp2_fast(sums.top - base);
        sums.top = largest;
        sums.weight *= keep;
#pragma unroll
        for (float& sum : sums.eight) sum *= keep;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const float scale = first + i < n ? exp2_fast(top[i] - base) : 0.0f;
            sums.weight = fmaf(weight[i], scale, sums.weight);
            const float more[8] = {x[i][0].x, x[i][0].y, x[i][0].z, x[i][0].w,
                                   x[i][1].x, x[i][1].y, x[i][1].z, x[i][1].w};
#pragma unroll
            for (int k = 0; k < 8; ++k) sums.eight[k] = fmaf(more[k], scale, sums.eight[k]);
        }
    }
    return sums;
}

// To a partial result that may be one of those it was made from. All lanes.
template <int kHeadDim, int kRows>
__device__ __forceinline__ void leave_row(const RowSums& sums, int32_t row, float* to) {
    using Rows = RowsOfWarp<kHeadDim>;
    __syncwarp();  // everybody has read what is about to be written over
    if (!Rows::works()) return;
    auto* at = reinterpret_cast<float4*>(to + row * kHeadDim + Rows::dim());
    at[0] = {sums.eight[0], sums.eight[1], sums.eight[2], sums.eight[3]};
    at[1] = {sums.eight[4], sums.eight[5], sums.eight[6], sums.eight[7]};
    if (Rows::dim() != 0) return;
    to[kRows * kHeadDim + row] = sums.top;
    to[kRows * (kHeadDim + 1) + row] = sums.weight;
}

// True for the last of n to arrive at a counter that began at zero. What the others wrote before is
// seen. One thread.
__device__ inline bool arrive_last(int32_t* counter, int32_t n) {
    __threadfence();
    const int32_t before = atomicAdd(counter, 1);
    __threadfence();
    return before + 1 == n;
}

// Shared heads of a block, when all of its warps have left their parts. All threads of the block.
template <int kHeadDim, int kRows, int kWarps>
__device__ __forceinline__ void merge_heads(const DecodePlan& plan, const WorkList& list,
                                            int32_t block_workers, SharedHead* heads,
                                            int32_t n_heads) {
    using Rows = RowsOfWarp<kHeadDim>;
    constexpr int32_t kPasses = kRows / Rows::kAtOnce;
    const DecodeWorkspace work = divide_workspace(plan);
#pragma unroll 1
    for (bool of_blocks = false;; of_blocks = true) {
#pragma unroll 1
        for (auto job = static_cast<int32_t>(threadIdx.x / 32); job < n_heads * kPasses;
             job += kWarps) {
            const SharedHead& head = heads[job / kPasses];
            if (of_blocks && !head.is_last_block) continue;
            const PartsOfHead parts = of_blocks ? head.of_blocks(block_workers) : head.in_block();
            if (!of_blocks && head.crosses() && parts.n == 1) continue;  // it is there
            const int32_t row = job % kPasses * Rows::kAtOnce + Rows::row();
            const auto partial_at = [&](int32_t worker) {
                return work.partials + head.slot(list, worker) * partial_floats(kRows, kHeadDim);
            };
            RowSums sums = merge_row<kHeadDim, kRows, 8>(
                parts.n, [&](int32_t i) { return partial_at(parts.worker(i)); }, row);
            if (!of_blocks && head.crosses()) {
                leave_row<kHeadDim, kRows>(sums, row, partial_at(head.first));
            } else {
                const RowsOfPass rows(plan, head.request, head.head / plan.passes,
                                      head.head % plan.passes * kRows);
                write_row<kHeadDim>(plan, rows, row, sums.eight, sums.top, sums.weight);
            }
        }
        if (of_blocks) return;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int32_t i = 0; i < n_heads; ++i)
                heads[i].is_last_block =
                    heads[i].crosses() && arrive_last(work.arrived + heads[i].first_worker,
                                                      heads[i].of_blocks(block_workers).n);
        __syncthreads();
    }
}

}  // namespace quire::kernels::cuda
