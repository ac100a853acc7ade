// The kernel after a prefill's: results of items that several workers share become one. A kernel of
// its own has all multiprocessors for it; the last worker of an item alone took a third as long as
// all products of a short prefill.
#pragma once

#include "kernels/cuda/attn/prefill_rows.cuh"
#include "kernels/cuda/ptx/grid.cuh"

namespace quire::kernels::cuda {

inline constexpr int32_t kMergeWarps = 4, kMergeRows = 8;           // of a block
inline constexpr int32_t kMergeBlocks = kPrefillRows / kMergeRows;  // of an item

// Block b: some rows of the item that begins with worker b / kMergeBlocks and goes on in another.
template <int kHeadDim>
__global__ void __launch_bounds__(32 * kMergeWarps)
    prefill_merge_kernel(const __grid_constant__ PrefillPlan plan) {
    let_next_kernel_start();
    wait_for_kernels_before();
    const PrefillWorkspace work = divide_workspace(plan);
    const auto worker = static_cast<int32_t>(blockIdx.x) / kMergeBlocks;
    const PrefillShare share = work.shares[worker];
    if (share.last_worker < 0) return;
    const int32_t row = static_cast<int32_t>(blockIdx.x) % kMergeBlocks * kMergeRows;
    write_rows<kHeadDim, kMergeWarps>(
        plan, work.items[share.item], share.head, {row, row + kMergeRows},
        share.last_worker - worker + 1, [&](int32_t i) {
            return work.partials + WorkList().slot_of(worker + i, worker + i < share.last_worker) *
                                       prefill_partial_floats(kHeadDim);
        });
}

}  // namespace quire::kernels::cuda
