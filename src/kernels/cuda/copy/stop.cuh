// How the threads of a block learn that a copy has been cancelled.
#pragma once

#include "kernels/cuda/copy/copy.h"

namespace quire::kernels::cuda {

// One a block, in shared memory.
struct StopWatch {
    uint32_t stop;

    // One lane of the block, now and then.
    __device__ __forceinline__ void ask(const StopLine* lines) {
        if (lines == nullptr) return;
        if (__ldcv(&lines[blockIdx.x % kStopLines].stop) != 0)
            *static_cast<volatile uint32_t*>(&stop) = 1;
    }
    // All lanes of a warp: the first warp asks the host, all look at what it heard.
    __device__ __forceinline__ bool stopped(const StopLine* lines) {
        if (threadIdx.x == 0) ask(lines);
        __syncwarp();
        const uint32_t heard = *static_cast<volatile uint32_t*>(&stop);
        return __any_sync(~0u, heard != 0);
    }
};

}  // namespace quire::kernels::cuda
