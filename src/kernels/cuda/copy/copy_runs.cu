#include <cuda_runtime.h>

#include "kernels/cuda/copy/checksum.h"
#include "kernels/cuda/copy/copy_runs.h"
#include "kernels/cuda/copy/stop.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kVectors = kUnitBytes / sizeof(uint4);  // of a unit
constexpr int kAtOnce = static_cast<int>(kVectors / 32);
constexpr uint32_t kUnitsBetween = 8;  // looks whether the copy is cancelled

struct Offsets {
    int64_t from;
    int64_t to;
};

// Of vector `v` of a run, counted in the order of the destination.
__device__ __forceinline__ Offsets offsets_of(const StridedRun& run, uint32_t v) {
    const uint32_t row_vectors = run.row_bytes / sizeof(uint4);
    uint32_t row = v / row_vectors;
    const int64_t in_row = int64_t{v - row * row_vectors} * sizeof(uint4);
    Offsets at = {in_row, in_row};
#pragma unroll
    for (int axis = 3; axis > 0; --axis) {
        const uint32_t above = row / run.counts[axis];
        const uint32_t i = row - above * run.counts[axis];
        at.from += i * run.from_strides[axis];
        at.to += i * run.to_strides[axis];
        row = above;
    }
    at.from += row * run.from_strides[0];
    at.to += row * run.to_strides[0];
    return at;
}

// The last run that begins at this unit or before.
__device__ __forceinline__ int32_t run_of(const StridedRun* runs, int32_t n, uint32_t unit) {
    int32_t first = 0, end = n;
    while (end - first > 1) {
        const int32_t middle = (first + end) / 2;
        if (runs[middle].first_unit <= unit)
            first = middle;
        else
            end = middle;
    }
    return first;
}

template <bool kSum>
__device__ __forceinline__ void copy_unit(const StridedRun& run, uint32_t unit, uint64_t* sum) {
    const auto vectors = static_cast<uint32_t>(run.bytes() / sizeof(uint4));
    const uint32_t v0 = (unit - run.first_unit) * kVectors + threadIdx.x % 32;
    uint4 x[kAtOnce];
    int64_t to[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
        const uint32_t v = v0 + 32 * j;
        if (v >= vectors) continue;
        const Offsets at = offsets_of(run, v);
        to[j] = at.to;
        x[j] = __ldcs(reinterpret_cast<const uint4*>(run.from + at.from));
    }
    uint64_t part = 0;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
        const uint32_t v = v0 + 32 * j;
        if (v >= vectors) continue;
        __stcs(reinterpret_cast<uint4*>(run.to + to[j]), x[j]);
        if constexpr (kSum) {
            part += checksum_word(x[j].x | uint64_t{x[j].y} << 32, 2 * uint64_t{v});
            part += checksum_word(x[j].z | uint64_t{x[j].w} << 32, 2 * uint64_t{v} + 1);
        }
    }
    if constexpr (kSum) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            part += __shfl_xor_sync(~0u, part, distance);
        if (threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<unsigned long long*>(sum), part);
    }
}

// Each warp takes consecutive units, so that it looks for its run once.
template <bool kSum>
__global__ void __launch_bounds__(kThreads, 1) copy_runs_kernel(const CopyRunsLaunch launch) {
    const int64_t warp = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
    const int64_t warps = int64_t{gridDim.x} * kWarps;
    const auto first = static_cast<uint32_t>(launch.units * warp / warps);
    const auto end = static_cast<uint32_t>(launch.units * (warp + 1) / warps);
    __shared__ StopWatch watch;
    if (threadIdx.x == 0) {
        watch.stop = 0;
        watch.ask(launch.stop);
    }
    __syncthreads();
    if (first == end || watch.heard()) return;
    int32_t i = run_of(launch.runs, launch.n, first);
    StridedRun run = launch.runs[i];
    for (uint32_t unit = first; unit < end; ++unit) {
        if ((unit - first) % kUnitsBetween == kUnitsBetween - 1 && watch.stopped(launch.stop))
            return;
        while (i + 1 < launch.n && launch.runs[i + 1].first_unit <= unit) run = launch.runs[++i];
        copy_unit<kSum>(run, unit, kSum ? launch.sums + i : nullptr);
    }
}

}  // namespace

int copy_runs(const CopyRunsLaunch& launch, CUstream_st* stream) {
    if (launch.n == 0 || launch.units == 0) return 0;
    const auto blocks = static_cast<uint32_t>(launch.blocks);
    if (launch.sums != nullptr)
        copy_runs_kernel<true><<<blocks, kThreads, 0, stream>>>(launch);
    else
        copy_runs_kernel<false><<<blocks, kThreads, 0, stream>>>(launch);
    return static_cast<int>(cudaGetLastError());
}

}  // namespace quire::kernels::cuda
