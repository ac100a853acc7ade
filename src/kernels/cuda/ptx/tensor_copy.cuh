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

// The same for all blocks of the cluster whose bit is set: to the same place, and with the bytes to
// the same barrier, of each.
__device__ __forceinline__ void tensor_copy_to(uint16_t blocks, void* to, const CUtensorMap* map,
                                               int32_t x, int32_t y, int32_t z, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
        :
        : "r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(z),
          "r"(shared_address(&barrier->state)), "h"(blocks)
        : "memory");
}

// One thread: asks the second-level cache for bytes that a copy will read soon. REQUIRES: both
// multiples of 16.
__device__ __forceinline__ void prefetch_bytes(const void* from, uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(from), "r"(bytes) : "memory");
}

}  // namespace quire::kernels::cuda
