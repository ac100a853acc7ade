// Stands in for src/kernels/cuda/ptx/warpgroup.cuh, as far as kernels that run here need it.
#pragma once

#include "kernels/cuda/ptx/floats.cuh"

namespace quire::kernels::cuda {

inline void meet(int barrier, int threads) {
    emulator::named_barrier(barrier, static_cast<uint32_t>(threads));
}

}  // namespace quire::kernels::cuda
