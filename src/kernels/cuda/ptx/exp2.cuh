// A fast power of two.
#pragma once

namespace quire::kernels::cuda {

// 2^x to about 22 bits; what is subnormal becomes zero, and so does -inf.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace quire::kernels::cuda
