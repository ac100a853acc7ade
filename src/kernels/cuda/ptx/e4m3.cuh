// E4M3 numbers to bf16, two at a time.
#pragma once

#include <cstdint>

namespace quire::kernels::cuda {

__device__ __forceinline__ uint32_t multiply_bf16(uint32_t a, uint32_t b) {
    uint32_t c;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
__device__ __forceinline__ uint32_t multiply_add_bf16(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// A float32 as the sum of two bf16, each of them twice.
struct SplitScale {
    uint32_t high, low;

    __device__ explicit SplitScale(float scale) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(high) : "f"(scale));
        const float rest = scale - __uint_as_float(high << 16);
        asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(low) : "f"(rest));
    }
};

// The same where the scale is a power of two, of E8M0: exponent + 127.
struct PowerScale {
    uint32_t high;

    __device__ explicit PowerScale(uint32_t exponent) {
        const uint32_t one = exponent == 0 ? 0x40 : exponent == 255 ? 0x7fff : exponent << 7;
        high = one << 16 | one;
    }
};

__device__ __forceinline__ uint32_t scale_bf16(uint32_t x, const SplitScale& scale) {
    return multiply_add_bf16(x, scale.high, multiply_bf16(x, scale.low));
}
__device__ __forceinline__ uint32_t scale_bf16(uint32_t x, const PowerScale& scale) {
    return multiply_bf16(x, scale.high);
}

// Bytes 2 kPair and 2 kPair + 1 of four codes, times a scale. A code's bits below the sign, moved
// to where bf16 has its lowest exponent bits, are the number times 2^-120; subnormals too.
template <int kPair, class Scale>
__device__ __forceinline__ uint32_t e4m3_to_bf16(uint32_t codes, const Scale& scale) {
    const uint32_t spread = __byte_perm(codes, 0, kPair == 0 ? 0x1404 : 0x3424);
    const uint32_t tiny = (spread >> 4 & 0x07f007f0) | (spread & 0x80008000);
    return scale_bf16(multiply_bf16(tiny, 0x7b807b80), scale);  // 2^120
}

}  // namespace quire::kernels::cuda
