// Stands in for src/kernels/cuda/ptx/lane_copy.cuh, as far as kernels that run here need it.
#pragma once

#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/ptx/bulk.cuh"

namespace quire::kernels::cuda {

// Lands at once.
inline void copy_16(uint32_t to, const void* from) {
    QUIRE_DEVICE_CHECK(to % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0,
                       "a copy of 16 bytes is not aligned to 16");
    std::memcpy(at_shared_address(to), from, 16);
}
inline void copy_16_alone(uint32_t to, const void* from) {
    copy_16(to, from);
}
inline void wait_for_copies() {}
inline void prefetch(const void*) {}
inline void end_lot_of_copies() {}
template <int kLots>
void wait_for_lots_but() {}
inline void wait_for_lots_but_one() {}

}  // namespace quire::kernels::cuda
