#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/attn/workspace.h"

namespace quire::kernels::cuda {
namespace {

constexpr int kPrepareThreads = 1024;

// One block: first_tiles, and counters that are zero.
__global__ void __launch_bounds__(kPrepareThreads) prepare_decode(const DecodeParams p) {
    const DecodeWorkspace work = divide_workspace(p);
    __shared__ int32_t before[kPrepareThreads + 1];
    const int32_t each = (p.n_requests + kPrepareThreads - 1) / kPrepareThreads;
    const int32_t first = static_cast<int32_t>(threadIdx.x) * each;
    const int32_t last = min(first + each, p.n_requests);
    int32_t own = 0;
    for (int32_t r = first; r < last; ++r) own += tiles_of(keys_of(p, r), kTileTokens);
    before[threadIdx.x + 1] = own;
    if (threadIdx.x == 0) before[0] = 0;
    __syncthreads();
    for (int distance = 1; distance < kPrepareThreads; distance *= 2) {
        const int at = static_cast<int>(threadIdx.x) + 1;
        const int32_t more = at > distance ? before[at - distance] : 0;
        __syncthreads();
        before[at] += more;
        __syncthreads();
    }
    int32_t tiles = before[threadIdx.x];
    for (int32_t r = first; r < last; ++r) {
        work.first_tiles[r] = tiles;
        tiles += tiles_of(keys_of(p, r), kTileTokens);
    }
    if (threadIdx.x == 0) work.first_tiles[p.n_requests] = before[kPrepareThreads];
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.n_requests * p.kv_heads;
         i += kPrepareThreads)
        work.arrived[i] = 0;
}

}  // namespace

void launch_prepare(const DecodeParams& p, CUstream_st* stream) {
    prepare_decode<<<1, kPrepareThreads, 0, stream>>>(p);
}

// Calls run<head_dim>.
template <class Run>
auto with_head_dim(int32_t head_dim, Run run) {
    switch (head_dim) {
        case 64:
            return run.template operator()<64>();
        case 96:
            return run.template operator()<96>();
        case 128:
            return run.template operator()<128>();
        case 192:
            return run.template operator()<192>();
        default:
            return run.template operator()<256>();
    }
}

int32_t decode_workers(int32_t head_dim) {
    int device = 0, multiprocessors = 0;
    if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess)
        return -static_cast<int32_t>(e);
    if (const cudaError_t e =
            cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        e != cudaSuccess)
        return -static_cast<int32_t>(e);
    const int32_t each =
        with_head_dim(head_dim, []<int kHeadDim>() { return decode_blocks_each<kHeadDim>(); });
    return each < 0 ? each : each * multiprocessors;
}

int decode(const DecodeParams& p, int32_t workers, CUstream_st* stream) {
    if (p.n_requests == 0) return 0;
    return with_head_dim(
        p.head_dim, [&]<int kHeadDim>() { return launch_decode<kHeadDim>(p, workers, stream); });
}

}  // namespace quire::kernels::cuda
