// Starting a kernel, and its dynamic shared memory: the two things of CUDA's language that the
// emulator of tests/gpu/emulator has in a file of its own.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace quire::kernels::cuda {

// Returns the CUDA runtime's error code, 0 for none.
template <class... Params, class... Arguments>
int launch_kernel(void (*kernel)(Params...), dim3 blocks, uint32_t threads, size_t shared_bytes,
                  CUstream_st* stream, const Arguments&... arguments) {
    kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...);
    return static_cast<int>(cudaGetLastError());
}

// The same of a kernel that may begin before the one before it in the stream has ended
// (ptx/grid.cuh).
template <class... Params, class... Arguments>
int launch_dependent(void (*kernel)(Params...), int32_t blocks, int32_t threads,
                     size_t shared_bytes, CUstream_st* stream, const Arguments&... arguments) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<uint32_t>(blocks));
    config.blockDim = dim3(static_cast<uint32_t>(threads));
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    return static_cast<int>(cudaLaunchKernelEx(&config, kernel, arguments...));
}

__device__ __forceinline__ std::byte* dynamic_shared() {
    extern __shared__ __align__(1024) std::byte dynamic_shared_memory[];
    return dynamic_shared_memory;
}

}  // namespace quire::kernels::cuda
