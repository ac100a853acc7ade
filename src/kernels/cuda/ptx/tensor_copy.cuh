// Copies of boxes of a tensor to shared memory, swizzled on the way.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "kernels/cuda/ptx/bulk.cuh"

namespace quire::kernels::cuda {

// One thread: the map's box at (x, y, z), x running fastest; numbers outside of the tensor are
// zeros. The barrier gets the bytes of the whole box. REQUIRES: the map is a kernel's parameter.
__device__ __forceinline__ void tensor_copy(void* to, const CUtensorMap* map, int32_t x, int32_t y,
                                            int32_t z, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3, %4}], [%5];"
        :
        : "r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(z),
          "r"(shared_address(&barrier->state))
        : "memory");
}

}  // namespace quire::kernels::cuda
