// Instructions on float32, and from float32 to narrower floats and back.
#pragma once

#include <cstdint>

namespace quire::kernels::cuda {

// A NaN when either is.
__device__ __forceinline__ float max_or_nan(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

// To about 22 bits.
__device__ __forceinline__ float approximate_root(float x) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

// Two numbers, a below: to nearest, ties to even. 8-bit codes do not go beyond their largest.
__device__ __forceinline__ uint32_t e4m3_pair(float a, float b) {
    uint16_t both;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
    return both;
}
__device__ __forceinline__ uint32_t e5m2_pair(float a, float b) {
    uint16_t both;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
    return both;
}
__device__ __forceinline__ uint32_t f16_pair(float a, float b) {
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
}
__device__ __forceinline__ uint32_t bf16_pair(float a, float b) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
}

// A pair of codes as a pair of f16.
__device__ __forceinline__ uint32_t f16_of_e4m3(uint32_t codes) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(codes)));
    return halves;
}

}  // namespace quire::kernels::cuda
