// The kernel of mla.h, for each way to bring keys.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/mla/bring_codes.cuh"
#include "kernels/cuda/mla/bring_lists.cuh"
#include "kernels/cuda/mla/bring_tiles.cuh"
#include "kernels/cuda/mla/multiply.cuh"

namespace quire::kernels::cuda {

// Arrivals: of a fill, and of a half that is done with, a warp each in every block of the cluster.
__device__ inline void init_barriers(MlaShared* s, uint32_t arrivals, uint32_t cluster) {
    for (int buffer = 0; buffer < 2; ++buffer) {
        for (Barrier& full : s->full[buffer]) full.init(arrivals);
        for (Barrier& empty : s->empty[buffer]) empty.init(4 * cluster);
    }
    fence_barriers();
}

// Registers of a thread. 168 each are there at the start: bringer + 2 multipliers <= 3 * 168.
template <MlaSource kSource, int kCluster>
struct MlaRoles {
    static constexpr int kBringRegisters = 88, kMultiplyRegisters = 208;
    static constexpr int kArrivals = CodeBringer<kSource, kCluster>::kArrivals;
};
template <int kCluster>
struct MlaRoles<MlaSource::tiles, kCluster> {
    static constexpr int kBringRegisters = 40, kMultiplyRegisters = 232;
    static constexpr int kArrivals = 1;
};
template <int kCluster>
struct MlaRoles<MlaSource::lists, kCluster> {
    static constexpr int kBringRegisters = 72, kMultiplyRegisters = 216;
    static constexpr int kArrivals = ListBringer::kArrivals;
};

template <MlaSource kSource, int kCluster>
__global__ void __launch_bounds__(kMlaThreads, 1)
    mla_kernel(const __grid_constant__ MlaParams p, const __grid_constant__ CUtensorMap map) {
    using Roles = MlaRoles<kSource, kCluster>;
    extern __shared__ __align__(1024) std::byte memory[];  // a constant: so are descriptors
    auto* s = reinterpret_cast<MlaShared*>(memory);
    if (threadIdx.x == 0) init_barriers(s, Roles::kArrivals, kCluster);
    wait_for_prior_kernel();
    if constexpr (kCluster == 1)
        __syncthreads();
    else
        cluster_meet();
    if (threadIdx.x >= kMlaMathThreads) {
        give_registers<Roles::kBringRegisters>();
        if constexpr (kSource == MlaSource::tiles) {
            if (threadIdx.x < kMlaMathThreads + 32) TileBringer(p, &map, s).run();
        } else if constexpr (kSource == MlaSource::lists) {
            ListBringer(p, s).run();
        } else {
            CodeBringer<kSource, kCluster>(p, s).run();
        }
    } else if (threadIdx.x < 128) {
        take_registers<Roles::kMultiplyRegisters>();
        MlaMultiplier<kSource, kCluster, 0>(p, s).run();
    } else {
        take_registers<Roles::kMultiplyRegisters>();
        MlaMultiplier<kSource, kCluster, 1>(p, s).run();
    }
    // Nobody leaves while others still write to its shared memory.
    if constexpr (kCluster > 1) {
        __syncwarp();
        cluster_meet();
    }
}

template <MlaSource kSource, int kCluster>
int launch_mla_of(const MlaParams& p, const CUtensorMap& map, int32_t workers,
                  CUstream_st* stream) {
    const auto kernel = mla_kernel<kSource, kCluster>;
    constexpr int kSharedBytes = static_cast<int>(sizeof(MlaShared));
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return static_cast<int>(error);
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {kCluster, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = static_cast<uint32_t>(workers / kCluster * kCluster);
    config.blockDim = kMlaThreads;
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    return static_cast<int>(cudaLaunchKernelEx(&config, kernel, p, map));
}

}  // namespace quire::kernels::cuda
