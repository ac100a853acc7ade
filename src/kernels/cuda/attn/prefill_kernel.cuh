// The kernel of prefill.h. A multiprocessor is a worker: two warpgroups multiply, the warps of a
// third bring keys.
//
// Shared memory: [table of levels, if any][PrefillShared][queries][tiles of K and V by turns][slots
// of codes].
#pragma once

#include <algorithm>

#include "kernels/cuda/attn/prefill_merge.cuh"
#include "kernels/cuda/attn/prefill_multiply.cuh"
#include "kernels/cuda/ptx/grid.cuh"

namespace quire::kernels::cuda {

__device__ inline void init_barriers(PrefillShared& shared, uint32_t chunks) {
    for (int side = 0; side < 2; ++side) {
        for (Barrier& full : shared.full[side]) full.init(chunks);
        for (Barrier& empty : shared.empty[side]) empty.init(4 * kPrefillGroups);
    }
    fence_barriers();
}

// Registers of a thread: 168 each are there at the start, or 128 where eight warps bring.
template <int kHeadDim, PagesHold kHold>
struct PrefillRegisters {
    static constexpr int32_t kBringers = PrefillTile<kHeadDim, kHold>::kBringers;
    static constexpr bool kFew = kHeadDim > 128 && kHold != PagesHold::codes;
    static constexpr int kBring = kFew ? 40 : kHeadDim == 96 && kBringers == 2 ? 104 : 88;
    static constexpr int kMultiply = kBringers == 4 ? 168 : (3 * 168 - kBring) / 2;
};

template <int kHeadDim, PagesHold kHold>
__global__ void __launch_bounds__((PrefillTile<kHeadDim, kHold>::kThreads), 1)
    prefill_kernel(const __grid_constant__ PrefillPlan plan) {
    using Tile = PrefillTile<kHeadDim, kHold>;
    PrefillShared& shared = *reinterpret_cast<PrefillShared*>(dynamic_shared() + plan.table_bytes);
    const uint32_t queries_at =
        shared_address(dynamic_shared()) + plan.table_bytes + Tile::kControlBytes;
    const uint32_t tiles_at = queries_at + kPrefillGroups * Tile::kQueryBytes;
    const uint32_t raw_at = tiles_at + plan.stages * 2 * Tile::kSideBytes;
    if constexpr (Tile::kCodes) fill_table(plan.p.k_bits, plan.p.v_bits);
    if (threadIdx.x == 0) init_barriers(shared, Tile::kChunks);
    let_next_kernel_start();
    wait_for_kernels_before();
    if (threadIdx.x == 0) shared.list = *divide_workspace(plan).list;
    __syncthreads();
    if (threadIdx.x < 128 * kPrefillGroups) {
        take_registers<PrefillRegisters<kHeadDim, kHold>::kMultiply>();
        PrefillMultiplier<kHeadDim, kHold>(plan, &shared, queries_at, tiles_at).run();
    } else {
        give_registers<PrefillRegisters<kHeadDim, kHold>::kBring>();
        const uint32_t warp = threadIdx.x / 32 - 4 * kPrefillGroups;
        if (warp < Tile::kBringers)
            PrefillBringer<kHeadDim, kHold, true>(plan, &shared, tiles_at, raw_at, warp).run();
        else
            PrefillBringer<kHeadDim, kHold, false>(plan, &shared, tiles_at, raw_at, warp).run();
    }
}

template <int kHeadDim>
void plan_prefill_codes(PrefillPlan& plan) {
    using Map = ChunkMap<kHeadDim>;
    const PrefillParams& p = plan.p;
    const codec::hot::Shape shape = {p.k_bits, p.v_bits, kHeadDim,
                                     static_cast<uint32_t>(p.block_tokens)};
    plan.table_bytes = has_table(p.k_bits) || has_table(p.v_bits) ? kTableBytes : 0;
    plan.raw_scales[0] = Map::v_at(p.k_bits);
    plan.raw_scales[1] = Map::v_plane(p.v_bits, codec::hot::planes_of(p.v_bits).count);
    for (int side = 0; side < 2; ++side)
        plan.raw_bytes[side] = plan.raw_scales[side] + kChunkTokens;
    plan.page_values = static_cast<uint32_t>(codec::hot::v_offset(shape));
    plan.page_scales[0] = static_cast<uint32_t>(codec::hot::k_scales_offset(shape));
    plan.page_scales[1] = static_cast<uint32_t>(codec::hot::v_scales_offset(shape));
    plan.out_norm = codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
    plan.q_norm = score_unit(p) * plan.out_norm;
}

template <int kHeadDim, PagesHold kHold>
size_t prefill_shared_bytes(const PrefillPlan& plan) {
    using Tile = PrefillTile<kHeadDim, kHold>;
    return plan.table_bytes + Tile::kControlBytes + kPrefillGroups * Tile::kQueryBytes +
           size_t{plan.stages} * 2 * Tile::kSideBytes +
           Tile::kBringers * Tile::kRawSlots * (plan.raw_bytes[0] + plan.raw_bytes[1]);
}

template <int kHeadDim, PagesHold kHold>
PrefillPlan plan_prefill(const PrefillParams& p, int32_t blocks) {
    using Tile = PrefillTile<kHeadDim, kHold>;
    PrefillPlan plan;
    plan.p = p;
    plan.group = p.n_heads / p.kv_heads;
    plan.items_max = prefill_items_max(p);
    plan.tile_keys = Tile::kKeys;
    plan.workers = blocks;
    plan.block_stride = static_cast<uint32_t>(p.block_stride);
    while (16 << plan.group_shift < p.block_tokens) ++plan.group_shift;
    if constexpr (Tile::kCodes) {
        plan_prefill_codes<kHeadDim>(plan);
    } else {
        plan.q_norm = plan.out_norm = 1;
        plan.score_norm = score_unit(p);
    }
    const size_t room = kSharedMax - prefill_shared_bytes<kHeadDim, kHold>(plan);
    plan.stages =
        std::min(static_cast<uint32_t>(room / (2 * Tile::kSideBytes)), uint32_t{kPrefillStagesMax});
    return plan;
}

template <int kHeadDim, PagesHold kHold>
int launch_prefill(const PrefillParams& p, int32_t blocks, CUstream_st* stream) {
    const PrefillPlan plan = plan_prefill<kHeadDim, kHold>(p, blocks);
    const size_t shared = prefill_shared_bytes<kHeadDim, kHold>(plan);
    const auto kernel = prefill_kernel<kHeadDim, kHold>;
    static std::atomic<uint64_t> allowed{0};
    if (const int e = allow_shared(reinterpret_cast<const void*>(kernel), &allowed)) return e;
    if (const int e = list_prefill_items(plan, stream)) return e;
    if (const int e = launch_dependent(kernel, blocks, PrefillTile<kHeadDim, kHold>::kThreads,
                                       shared, stream, plan))
        return e;
    return launch_dependent(prefill_merge_kernel<kHeadDim>, blocks * kMergeBlocks, 32 * kMergeWarps,
                            0, stream, plan);
}

}  // namespace quire::kernels::cuda
