#include "kernels/cuda/attn/prefill_plan.h"
#include "kernels/cuda/launch_kernel.cuh"
#include "kernels/cuda/ptx/grid.cuh"
#include "kernels/cuda/sched/count_tiles.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int32_t kClearBlocks = 8;

// Which rows are one item.
__device__ void list_items(const PrefillPlan& plan, const PrefillWorkspace& work) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    for (int32_t r = thread; r < plan.p.n_requests; r += kCountThreads)
        for (int32_t i = work.first_items[r]; i < work.first_items[r + 1]; ++i)
            work.items[i] = {r, (i - work.first_items[r]) * kPrefillRows};
}

// Until somebody says more: that rows see nothing. By all blocks but the first.
__device__ void clear_lse(const PrefillParams& p) {
    if (p.lse == nullptr) return;
    const int64_t n = int64_t{p.n_tokens} * p.n_heads;
    for (int64_t i = (int64_t{blockIdx.x} - 1) * kCountThreads + threadIdx.x; i < n;
         i += int64_t{gridDim.x - 1} * kCountThreads)
        p.lse[i] = -INFINITY;
}

// Items, and the work list over them, by the first block.
__global__ void __launch_bounds__(kCountThreads)
    items_kernel(const __grid_constant__ PrefillPlan plan) {
    let_next_kernel_start();
    wait_for_kernels_before();
    const PrefillParams& p = plan.p;
    if (blockIdx.x > 0) {
        clear_lse(p);
        return;
    }
    const PrefillWorkspace work = divide_workspace(plan);
    count_tiles(
        p.n_requests,
        [&](int32_t r) {
            return (queries_of(p, r) * plan.group + kPrefillRows - 1) / kPrefillRows;
        },
        work.first_items);
    __syncthreads();
    list_items(plan, work);
    __syncthreads();
    const int32_t n_items = work.first_items[p.n_requests];
    count_tiles(
        n_items,
        [&](int32_t i) { return tiles_of(keys_of(plan, work.items[i]).span, plan.tile_keys); },
        work.first_tiles);
    __syncthreads();
    if (threadIdx.x == 0)
        *work.list = WorkList(work.first_tiles, n_items, p.kv_heads, plan.workers);
}

template <int kHeadDim>
int prefill_pages(const PrefillParams& p, int32_t blocks, CUstream_st* stream) {
    switch (p.pages_hold) {
        case PagesHold::f16:
            return launch_prefill<kHeadDim, PagesHold::f16>(p, blocks, stream);
        case PagesHold::bf16:
            return launch_prefill<kHeadDim, PagesHold::bf16>(p, blocks, stream);
        default:
            return launch_prefill<kHeadDim, PagesHold::codes>(p, blocks, stream);
    }
}

}  // namespace

int list_prefill_items(const PrefillPlan& plan, CUstream_st* stream) {
    return launch_dependent(items_kernel, 1 + kClearBlocks, kCountThreads, 0, stream, plan);
}

int prefill(const PrefillParams& p, int32_t blocks, CUstream_st* stream) {
    if (p.n_requests == 0 || p.n_tokens == 0) return 0;
    switch (p.head_dim) {
        case 64:
            return prefill_pages<64>(p, blocks, stream);
        case 96:
            return prefill_pages<96>(p, blocks, stream);
        case 128:
            return prefill_pages<128>(p, blocks, stream);
        default:
            return prefill_pages<256>(p, blocks, stream);
    }
}

}  // namespace quire::kernels::cuda
