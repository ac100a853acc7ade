// Blocks of a cluster: they run at the same time, and reach each other's shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/bulk.cuh"

namespace quire::kernels::cuda {

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// By all threads of all blocks of the cluster, between which it orders memory.
__device__ __forceinline__ void cluster_meet() {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
}

// The address in the block of that rank of what has this address here.
__device__ __forceinline__ uint32_t address_in(uint32_t address, uint32_t rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// 16 bytes to an address that address_in() gave; the barrier there, of the same block, gets them as
// those of a copy. Who waits for it sees them; fence_shared_writes() then shows them to products.
__device__ __forceinline__ void store_in(uint32_t there, const uint4& x, uint32_t barrier_there) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, [%5];"
        :
        : "r"(there), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier_there)
        : "memory");
}

// Arrives at the barrier of that rank's block: what was read before has been read. Makes no writes
// seen: to order those for other blocks takes a fence of the whole GPU.
__device__ __forceinline__ void arrive_in(const Barrier* barrier, uint32_t rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];"
                 :
                 : "r"(address_in(shared_address(&barrier->state), rank))
                 : "memory");
}

}  // namespace quire::kernels::cuda
