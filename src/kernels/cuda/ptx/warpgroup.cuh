// What warps of a block that have different roles need of each other.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/exp2.cuh"
#include "kernels/cuda/ptx/floats.cuh"

namespace quire::kernels::cuda {

// By a whole warpgroup, once, at the beginning of its role: registers a thread. A multiple of 8.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

// Barrier 1 to 15 of the block for `threads` threads: meet() waits for all, arrive() does not.
__device__ __forceinline__ void meet(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

// After ordinary writes to shared memory that products or copies will read, before the barrier.
__device__ __forceinline__ void fence_shared_writes() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Four 8 x 8 matrices of 16-bit numbers, as registers of fragments, to rows of 16 bytes; lane l
// names row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(uint32_t row_address, uint32_t a, uint32_t b,
                                               uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 :
                 : "r"(row_address), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// Where a kernel was launched so that it may start before the one before it has ended: until that
// has, and what it wrote is seen.
__device__ __forceinline__ void wait_for_prior_kernel() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// threadIdx.x, read anew: what is made of it need not stay in registers.
__device__ __forceinline__ int thread_now() {
    int x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

// gridDim.x and blockIdx.x, likewise.
__device__ __forceinline__ int blocks_now() {
    int x;
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(x));
    return x;
}
__device__ __forceinline__ int block_now() {
    int x;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
}

}  // namespace quire::kernels::cuda
