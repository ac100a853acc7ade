// Loads from shared memory by address.
#pragma once

#include <cstdint>

namespace quire::kernels::cuda {

// Words that copies bring: not before a barrier said so.
__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
    uint32_t x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address));
    return x;
}

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
    uint4 x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address));
    return x;
}
__device__ __forceinline__ void store_shared_16(uint32_t address, const uint4& x) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t address, uint32_t x) {
    asm volatile("st.shared.b32 [%0], %1;" : : "r"(address), "r"(x) : "memory");
}

// Four 8 x 8 matrices of 16-bit numbers, transposed: lanes 0 to 7 have the addresses of the first
// one's rows, the next eight the second one's, and so on. As words that copies bring.
__device__ __forceinline__ uint4 load_transposed(uint32_t address) {
    uint4 x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address));
    return x;
}
// The same as they lie, the first two to `near`, the others to `far`; and of two matrices, whose
// rows lanes 0 to 15 have.
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&near)[2],
                                              uint32_t (&far)[2]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(near[0]), "=r"(near[1]), "=r"(far[0]), "=r"(far[1])
                 : "r"(address));
}
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&two)[2]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(two[0]), "=r"(two[1])
                 : "r"(address));
}
__device__ __forceinline__ void clear_shared_16(uint32_t address) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" : : "r"(address), "r"(0) : "memory");
}

// Where a block's dynamic shared memory begins, if it has no other: after what the system keeps for
// itself. Launchers check that (allow_shared() of attn/launch.h), so that an instruction can have
// it as a constant.
inline constexpr uint32_t kSharedStart = 1024;

// Of a table at the start of dynamic shared memory, which nobody changes any more: in any order.
__device__ __forceinline__ uint32_t look_up(uint32_t offset) {
    uint32_t x;
    asm("ld.shared.b32 %0, [%1 + %2];" : "=r"(x) : "r"(offset), "n"(kSharedStart));
    return x;
}
__device__ __forceinline__ uint2 look_up_two(uint32_t offset) {
    uint2 x;
    asm("ld.shared.v2.b32 {%0, %1}, [%2 + %3];"
        : "=r"(x.x), "=r"(x.y)
        : "r"(offset), "n"(kSharedStart));
    return x;
}

// The same number, which the compiler cannot see to be: what follows from it is computed where it
// is used, and does not live in registers, for every width, through the loop around it.
__device__ __forceinline__ uint32_t opaque(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}

}  // namespace quire::kernels::cuda
