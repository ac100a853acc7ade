#include <cuda_runtime.h>

#include "kernels/cuda/copy/copy.h"

namespace quire::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 8;  // independent loads of a thread: 16 KiB of a warp, 64 KiB of a block

// A warp takes a fragment at a time; what is read and written once stays out of the caches.
__global__ void __launch_bounds__(kThreads, 1)
    copy_kernel(const CopyFragment* fragments, int32_t n) {
    const int32_t warps = static_cast<int32_t>(gridDim.x) * (kThreads / 32);
    const int32_t warp = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x) / 32;
    const uint32_t lane = threadIdx.x % 32;
    for (int32_t i = warp; i < n; i += warps) {
        const CopyFragment f = fragments[i];
        const auto* from = reinterpret_cast<const uint4*>(f.from);
        auto* to = reinterpret_cast<uint4*>(f.to);
        const uint64_t vectors = f.bytes / sizeof(uint4);
        uint64_t v = lane;
        for (; v + 32 * (kAtOnce - 1) < vectors; v += 32 * kAtOnce) {
            uint4 held[kAtOnce];
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) held[j] = __ldcs(from + v + 32 * j);
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) __stcs(to + v + 32 * j, held[j]);
        }
        for (; v < vectors; v += 32) __stcs(to + v, __ldcs(from + v));
    }
}

}  // namespace

int copy_fragments(const CopyFragment* fragments, int32_t n, int32_t blocks, CUstream_st* stream) {
    if (n == 0) return 0;
    copy_kernel<<<static_cast<uint32_t>(blocks), kThreads, 0, stream>>>(fragments, n);
    return static_cast<int>(cudaGetLastError());
}

}  // namespace quire::kernels::cuda
