// Stands in for src/kernels/cuda/launch_kernel.cuh.
#pragma once

namespace quire::kernels::cuda {

template <class... Params, class... Arguments>
int launch_kernel(void (*kernel)(Params...), dim3 blocks, uint32_t threads, size_t shared_bytes,
                  CUstream_st*, const Arguments&... arguments) {
    emulator::run(blocks, threads, shared_bytes, [&] { kernel(arguments...); });
    return 0;
}

template <class... Params, class... Arguments>
int launch_dependent(void (*kernel)(Params...), int32_t blocks, int32_t threads,
                     size_t shared_bytes, CUstream_st* stream, const Arguments&... arguments) {
    return launch_kernel(kernel, blocks, threads, shared_bytes, stream, arguments...);
}

inline std::byte* dynamic_shared() {
    return emulator::dynamic_shared();
}

}  // namespace quire::kernels::cuda
