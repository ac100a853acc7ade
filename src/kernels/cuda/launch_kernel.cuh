// Starting a kernel, and its dynamic shared memory: the two things of CUDA's language that the
// emulator of tests/gpu/emulator has in a file of its own.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace quire::kernels::cuda {

// Returns the CUDA runtime's error code, 0 for none.
template <class... Params, class... Arguments>
int launch_kernel(void (*kernel)(Params...), int32_t blocks, int32_t threads, size_t shared_bytes,
                  CUstream_st* stream, const Arguments&... arguments) {
    kernel<<<static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads), shared_bytes, stream>>>(
        arguments...);
    return static_cast<int>(cudaGetLastError());
}

__device__ __forceinline__ std::byte* dynamic_shared() {
    extern __shared__ __align__(1024) std::byte dynamic_shared_memory[];
    return dynamic_shared_memory;
}

}  // namespace quire::kernels::cuda
