// Stands in for src/kernels/cuda/ptx/bulk.cuh, as far as kernels that run here need it: addresses.
#pragma once

namespace quire::kernels::cuda {

// Where a block's dynamic shared memory begins on a GPU.
inline constexpr uint32_t kSharedStart = 1024;

inline uint32_t shared_address(const void* p) {
    return kSharedStart +
           static_cast<uint32_t>(static_cast<const std::byte*>(p) - emulator::dynamic_shared());
}
inline std::byte* at_shared_address(uint32_t address) {
    return emulator::dynamic_shared() + (address - kSharedStart);
}

}  // namespace quire::kernels::cuda
