// Kernels that follow each other in a stream, the second of which begins while the first one runs:
// to be ready when that has ended.
#pragma once

namespace quire::kernels::cuda {

// The next kernel, if launch_dependent() of launch_kernel.cuh launches it, may begin.
__device__ __forceinline__ void let_next_kernel_start() {
    asm volatile("griddepcontrol.launch_dependents;");
}
// Until kernels before this one have ended; what they wrote is seen.
__device__ __forceinline__ void wait_for_kernels_before() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace quire::kernels::cuda
