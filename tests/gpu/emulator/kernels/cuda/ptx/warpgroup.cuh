// Stands in for src/kernels/cuda/ptx/warpgroup.cuh, as far as kernels that run here need it.
#pragma once

#include "kernels/cuda/ptx/floats.cuh"

namespace quire::kernels::cuda {

template <int kRegisters>
void take_registers() {}
template <int kRegisters>
void give_registers() {}

inline void meet(int barrier, int threads) {
    emulator::named_barrier(barrier, static_cast<uint32_t>(threads));
}
inline void fence_shared_writes() {}

}  // namespace quire::kernels::cuda
