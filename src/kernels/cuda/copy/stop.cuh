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
    // All lanes of a warp, which all get the same answer.
    __device__ __forceinline__ bool heard() const {
        return __any_sync(~0u, *static_cast<const volatile uint32_t*>(&stop) != 0);
    }
    // The same; the block's first warp asks the host before.
    __device__ __forceinline__ bool stopped(const StopLine* lines) {
        if (threadIdx.x == 0) ask(lines);
        __syncwarp();
        return heard();
    }
};

}  // namespace quire::kernels::cuda
