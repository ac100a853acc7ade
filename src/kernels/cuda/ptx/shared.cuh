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
