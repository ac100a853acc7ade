// The kernel before a decode's: its work list by one block, by the others its queries as operands
// of the products. So the decode's kernel, which starts on all multiprocessors at once, has that
// much less to do before its first product: code that runs once is slow there (rows.cuh).
#pragma once

#include "kernels/cuda/attn/levels.cuh"
#include "kernels/cuda/attn/rows.cuh"
#include "kernels/cuda/attn/workspace.h"
#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/ptx/grid.cuh"
#include "kernels/cuda/sched/count_tiles.cuh"

namespace quire::kernels::cuda {

// Query rows of a pass as the products' second operand: [tile][step of 16 dimensions][lane], two
// registers of two numbers each; lane 4 row + t. Columns 2t, 2t + 1 and 2t + 8, 2t + 9 of the
// product are dimensions k_dim(bits, step, t, 0 to 3) of codec/chunk.h.
template <int kHeadDim, int kTiles>
struct QueryOperands {
    static constexpr int kWords = kTiles * kHeadDim / 16 * 32 * 2;

    // Eight dimensions of a row: word i of a lane t of the product's, of a half of the step.
    static __device__ __forceinline__ void keep(uint32_t* words, const DecodeParams& p, int32_t row,
                                                const float (&x)[8]) {
        const bool in_order = p.pages_hold != PagesHold::codes || p.k_bits == 8;
        const bool bf16 = p.pages_hold == PagesHold::bf16;
        const int32_t dim = RowsOfWarp<kHeadDim>::dim(), half = dim / 8 % 2;
        const int32_t step = row / kRowsOfTile * (kHeadDim / 16) + dim / 16;
        words += (step * 32 + row % kRowsOfTile * 4) * 2 + half * (in_order ? 1 : 4);
        const int32_t apart = in_order ? 2 : 1;
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i * apart] = number_pair(bf16, x[2 * i], x[2 * i + 1]);
    }
};

// By warp `warp` of n: queries in the codec's space, times plan.q_norm.
template <int kHeadDim, int kTiles>
__device__ __forceinline__ void rotate_queries(const DecodePlan& plan, uint32_t* to, int32_t warp,
                                               int32_t n) {
    using Rows = RowsOfWarp<kHeadDim>;
    using Operands = QueryOperands<kHeadDim, kTiles>;
    constexpr int32_t kRows = kTiles * kRowsOfTile, kPasses = kRows / Rows::kAtOnce;
    const DecodeParams& p = plan.p;
    const int32_t heads = p.kv_heads * plan.passes;
#pragma unroll 1
    for (int64_t i = warp; i < int64_t{p.n_requests} * heads * kPasses; i += n) {
        const auto of = static_cast<int32_t>(i / kPasses), head = of % heads;
        const int32_t row = static_cast<int32_t>(i % kPasses) * Rows::kAtOnce + Rows::row();
        const RowsOfPass rows(plan, of / heads, head / plan.passes, head % plan.passes * kRows);
        float x[8] = {};
        if (Rows::works() && rows.has(row)) {
            if (p.lse != nullptr && Rows::dim() == 0 && p.lengths[of / heads] == 0)
                p.lse[rows.at(p, row, p.n_heads, 1)] = -INFINITY;
            const int64_t at = rows.at(p, row, p.q_token_stride, p.q_head_stride) + Rows::dim();
            numbers_of(load_eight(p.q, p.element, at), p.element, x);
        }
        if (plan.codes) Rows::rotate(x);
#pragma unroll
        for (float& own : x) own *= plan.q_norm;
        if (Rows::works()) Operands::keep(to + int64_t{of} * Operands::kWords, p, row, x);
    }
}

__device__ __forceinline__ void check_length([[maybe_unused]] const DecodeParams& p,
                                             [[maybe_unused]] int32_t keys) {
    QUIRE_DEVICE_CHECK(keys == 0 || p.all_keys || keys >= p.n_queries,
                       "lengths: one is less than n_queries");
    QUIRE_DEVICE_CHECK(keys <= p.table_stride * p.block_tokens,
                       "lengths: one has more keys than its row of blocks");
}

// Of requests without keys, by the block that counts tiles.
__device__ inline void clear_lse(const DecodeParams& p) {
    const int32_t each = p.n_queries * p.n_heads;
    for (auto r = static_cast<int32_t>(threadIdx.x); r < p.n_requests; r += kCountThreads)
        for (int32_t i = 0; i < each && p.lengths[r] == 0; ++i)
            p.lse[int64_t{r} * each + i] = -INFINITY;
}

template <int kHeadDim, int kTiles>
__global__ void __launch_bounds__(kCountThreads)
    prepare_kernel(const __grid_constant__ DecodePlan plan, int32_t blocks) {
    let_next_kernel_start();
    const DecodeParams& p = plan.p;
    const DecodeWorkspace work = divide_workspace(plan);
    if (blockIdx.x > 0) {
        constexpr int32_t kWarps = kCountThreads / 32;
        const auto warp = static_cast<int32_t>((blockIdx.x - 1) * kWarps + threadIdx.x / 32);
        rotate_queries<kHeadDim, kTiles>(plan, work.queries, warp,
                                         static_cast<int32_t>(gridDim.x - 1) * kWarps);
        return;
    }
    count_tiles(
        p.n_requests,
        [&](int32_t r) {
            check_length(p, p.lengths[r]);
            return tiles_of(keys_of(p, r), plan.tile_tokens);
        },
        work.first_tiles);
    if (p.lse != nullptr) clear_lse(p);
    __syncthreads();
    // As few warps of each block as have a tile each, so that all blocks work.
    const int32_t heads = p.kv_heads * plan.passes;
    const int32_t tiles = work.first_tiles[p.n_requests] * heads;
    const int32_t each = max(1, min(plan.warps, (tiles + blocks - 1) / blocks));
    const WorkList list(work.first_tiles, p.n_requests, heads, each * blocks);
    if (threadIdx.x == 0) *work.head = {list, each};
    for (auto i = static_cast<int32_t>(threadIdx.x); i < list.busy(); i += kCountThreads)
        work.arrived[i] = 0;
}

// `blocks`: of the decode's kernel.
template <int kHeadDim, int kTiles>
int launch_prepare(const DecodePlan& plan, int32_t blocks, CUstream_st* stream) {
    const int64_t rows =
        int64_t{plan.p.n_requests} * plan.p.kv_heads * plan.passes * kTiles * kRowsOfTile;
    const int64_t each = kCountThreads / 32 * RowsOfWarp<kHeadDim>::kAtOnce;  // rows of a block
    const auto others = static_cast<int32_t>(std::min<int64_t>((rows + each - 1) / each, blocks));
    return launch_kernel(prepare_kernel<kHeadDim, kTiles>, 1 + others, kCountThreads, 0, stream,
                         plan, blocks);
}

}  // namespace quire::kernels::cuda
