#include <cuda_runtime.h>

#include "kernels/cuda/copy/checksum.h"
#include "kernels/cuda/copy/copy.h"
#include "kernels/cuda/copy/stop.cuh"
#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/launch_kernel.cuh"

namespace quire::kernels::cuda {
namespace {

// Registers for sums cost a third of the warps.
template <bool kSum>
constexpr int kThreads = kSum ? 512 : 768;
template <bool kSum>
constexpr int kWarps = kThreads<kSum> / 32;
constexpr int kAtOnce = 8;  // independent loads of a thread: 4 KiB of a warp, 96 KiB of a block

__device__ __forceinline__ uint64_t from_lane(uint64_t x, int lane) {
    return __shfl_sync(~0u, x, lane);
}

__device__ __forceinline__ uint4 from_lane(const uint4& x, int lane) {
    return {__shfl_sync(~0u, x.x, lane), __shfl_sync(~0u, x.y, lane), __shfl_sync(~0u, x.z, lane),
            __shfl_sync(~0u, x.w, lane)};
}

// What a warp looks up at once: a piece for each lane. The list may be the host's: it is read in
// whole lines, which lanes then exchange; loads of single members cross the bus one by one.
struct HeldPieces {
    uint64_t from = 0, to = 0, at = 0;
    uint32_t bytes = 0, fragment = 0;

    __device__ __forceinline__ void load(const CopyPiece* pieces, int32_t first, int32_t end) {
        const auto lane = static_cast<int32_t>(threadIdx.x % 32);
        const auto* list = reinterpret_cast<const uint4*>(pieces + first);
        const int32_t halves = 2 * (end - first);
        uint4 x[2] = {};
        if (lane < halves) x[0] = __ldcs(list + lane);
        if (lane + 32 < halves) x[1] = __ldcs(list + lane + 32);
        const int source = 2 * lane % 32;
        const uint4 low[2] = {from_lane(x[0], source), from_lane(x[1], source)};
        const uint4 high[2] = {from_lane(x[0], source + 1), from_lane(x[1], source + 1)};
        const uint4 a = lane < 16 ? low[0] : low[1], b = lane < 16 ? high[0] : high[1];
        from = a.x | uint64_t{a.y} << 32;
        to = a.z | uint64_t{a.w} << 32;
        at = b.x | uint64_t{b.y} << 32;
        bytes = b.z;
        QUIRE_DEVICE_CHECK((from | to | bytes) % sizeof(uint4) == 0,
                           "pieces: one is not of whole 16 bytes at multiples of 16");
        fragment = b.w;
    }
};

__device__ __forceinline__ uint64_t sum_of(uint4 x, uint64_t place) {
    const uint64_t low = x.x | uint64_t{x.y} << 32, high = x.z | uint64_t{x.w} << 32;
    return checksum_word(low, place) + checksum_word(high, place + 1);
}

__device__ __forceinline__ uint64_t warp_sum(uint64_t x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

// A warp's copy of a piece; what is read and written once stays out of the caches.
template <bool kSum>
__device__ __forceinline__ void copy_piece(const HeldPieces& held, int k, uint64_t* sums) {
    const auto* from = reinterpret_cast<const uint4*>(from_lane(held.from, k));
    auto* to = reinterpret_cast<uint4*>(from_lane(held.to, k));
    const uint32_t vectors = __shfl_sync(~0u, held.bytes, k) / sizeof(uint4);
    const uint64_t place = from_lane(held.at, k) / 8;
    uint64_t sum = 0;
    for (uint32_t v = threadIdx.x % 32; v < vectors; v += 32 * kAtOnce) {
        uint4 x[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j)
            if (v + 32 * j < vectors) x[j] = __ldcs(from + v + 32 * j);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j)
            if (v + 32 * j < vectors) {
                __stcs(to + v + 32 * j, x[j]);
                if constexpr (kSum) sum += sum_of(x[j], place + 2 * (v + 32 * j));
            }
    }
    if constexpr (kSum) {
        const uint32_t fragment = __shfl_sync(~0u, held.fragment, k);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            atomicAdd(reinterpret_cast<unsigned long long*>(sums + fragment), sum);
    }
}

// Pieces of at most a vector for each lane: kAtOnce of them are in flight.
template <bool kSum>
__device__ __forceinline__ void copy_small(const HeldPieces& held, int first, uint64_t* sums) {
    const uint32_t lane = threadIdx.x % 32;
    uint4 x[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
        const auto* from = reinterpret_cast<const uint4*>(from_lane(held.from, first + j));
        if (lane < __shfl_sync(~0u, held.bytes, first + j) / sizeof(uint4))
            x[j] = __ldcs(from + lane);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
        auto* to = reinterpret_cast<uint4*>(from_lane(held.to, first + j));
        const bool mine = lane < __shfl_sync(~0u, held.bytes, first + j) / sizeof(uint4);
        if (mine) __stcs(to + lane, x[j]);
        if constexpr (kSum) {
            const uint64_t place = from_lane(held.at, first + j) / 8 + 2 * lane;
            const uint64_t sum = warp_sum(mine ? sum_of(x[j], place) : 0);
            const uint32_t fragment = __shfl_sync(~0u, held.fragment, first + j);
            if (lane == 0 && sum != 0)
                atomicAdd(reinterpret_cast<unsigned long long*>(sums + fragment), sum);
        }
    }
}

// The bytes that it copied before it was stopped.
template <bool kSum>
__device__ __forceinline__ uint64_t copy_group(const HeldPieces& held, int32_t n,
                                               const CopyLaunch& launch, StopWatch& watch) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x % 32);
    int32_t k = 0;
    for (; k < n; k += kAtOnce) {
        const bool mine = lane >= k && lane < k + kAtOnce;
        if (__all_sync(~0u, !mine || held.bytes <= 32 * sizeof(uint4))) {
            copy_small<kSum>(held, k, launch.sums);
            continue;
        }
        if (k > 0 && watch.stopped(launch.stop)) break;
        for (int j = k; j < min(k + kAtOnce, n); ++j) copy_piece<kSum>(held, j, launch.sums);
    }
    return warp_sum(lane < k ? held.bytes : 0);
}

// The block that ends last tells the host how far all launches came.
__device__ __forceinline__ void report(const CopyLaunch& launch, uint64_t warp_bytes) {
    __shared__ unsigned long long block_bytes;
    if (threadIdx.x == 0) block_bytes = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicAdd(&block_bytes, warp_bytes);
    __syncthreads();
    if (threadIdx.x != 0) return;
    auto* total = reinterpret_cast<unsigned long long*>(&launch.progress->done_bytes);
    atomicAdd(total, block_bytes);
    __threadfence();
    if (atomicInc(&launch.progress->blocks_ended, gridDim.x - 1) != gridDim.x - 1) return;
    __threadfence();
    *launch.done_bytes = atomicAdd(total, 0);
}

// A warp takes `group` pieces at a time.
template <bool kSum>
__global__ void __launch_bounds__(kThreads<kSum>, 1)
    copy_kernel(const CopyLaunch launch, int32_t group) {
    __shared__ StopWatch watch;
    const int32_t warp = static_cast<int32_t>(blockIdx.x * kWarps<kSum> + threadIdx.x / 32);
    const int32_t step = static_cast<int32_t>(gridDim.x) * kWarps<kSum> * group;
    int64_t first = int64_t{warp} * group;
    const auto end = [&] { return static_cast<int32_t>(min(first + group, int64_t{launch.n})); };
    HeldPieces held;
    if (first < launch.n) held.load(launch.pieces, static_cast<int32_t>(first), end());
    if (threadIdx.x == 0) {
        watch.stop = 0;
        watch.ask(launch.stop);
    }
    __syncthreads();
    uint64_t done_bytes = 0;
    bool stopped = watch.heard();
    while (first < launch.n && !stopped) {
        done_bytes += copy_group<kSum>(held, end() - static_cast<int32_t>(first), launch, watch);
        first += step;
        if (first >= launch.n) break;
        held = {};
        held.load(launch.pieces, static_cast<int32_t>(first), end());
        stopped = watch.stopped(launch.stop);
    }
    if (launch.progress != nullptr) report(launch, done_bytes);
}

}  // namespace

int load_copy() {
    cudaFuncAttributes attributes;
    const cudaError_t error =
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&copy_kernel<false>));
    if (error != cudaSuccess) return static_cast<int>(error);
    return static_cast<int>(
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&copy_kernel<true>)));
}

int copy_pieces(const CopyLaunch& launch, CUstream_st* stream) {
    if (launch.n == 0) return 0;
    const bool sums = launch.sums != nullptr;
    const int32_t warps = launch.blocks * (sums ? kWarps<true> : kWarps<false>);
    // Warps that take turns have equal shares: who takes one group more works on alone.
    const int32_t turns = (launch.n - 1) / (32 * warps) + 1;
    const int32_t group = (launch.n - 1) / (turns * warps) + 1;
    return sums ? launch_kernel(copy_kernel<true>, launch.blocks, kThreads<true>, 0, stream, launch,
                                group)
                : launch_kernel(copy_kernel<false>, launch.blocks, kThreads<false>, 0, stream,
                                launch, group);
}

}  // namespace quire::kernels::cuda
