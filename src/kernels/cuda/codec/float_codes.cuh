// Numbers to 8-bit and 16-bit floats, to the bits of codec/fp8 and codec/raw16.
//
// pair() uses the conversion instructions, which agree with the oracles for all numbers but NaN:
// those lose their sign and what else they hold. careful() takes any number.
#pragma once

#include <cstdint>
#include <type_traits>

#include "codec/fp8/format.h"

namespace quire::kernels::cuda {

struct E4m3Code {
    using Code = uint8_t;
    static constexpr codec::fp8::Format kFormat = codec::fp8::kE4m3;
    // a in the low byte.
    static __device__ __forceinline__ uint32_t pair(float a, float b) {
        uint16_t both;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
        return both;
    }
};
struct E5m2Code {
    using Code = uint8_t;
    static constexpr codec::fp8::Format kFormat = codec::fp8::kE5m2;
    static __device__ __forceinline__ uint32_t pair(float a, float b) {
        uint16_t both;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
        return both;
    }
};
struct F16Code {
    using Code = uint16_t;
    static __device__ __forceinline__ uint32_t pair(float a, float b) {
        uint32_t both;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
        return both;
    }
};
struct Bf16Code {
    using Code = uint16_t;
    static __device__ __forceinline__ uint32_t pair(float a, float b) {
        uint32_t both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
        return both;
    }
};

template <class Target>
inline constexpr bool kIsFp8 = sizeof(typename Target::Code) == 1;

template <class Target>
__device__ inline uint32_t careful(float x) {
    const uint32_t bits = __float_as_uint(x);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    if constexpr (kIsFp8<Target>) {
        if (is_nan) return (bits >> 24 & 0x80) | static_cast<uint32_t>(codec::fp8::kNan);
        const float near = fminf(fabsf(x), Target::kFormat.largest);
        return Target::pair(copysignf(near, x), 0.0f) & 0xff;
    } else {
        if (!is_nan) return Target::pair(x, 0.0f) & 0xffff;
        // Quiet, with what there is room for.
        constexpr bool kIsF16 = std::is_same_v<Target, F16Code>;
        return kIsF16 ? (bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x3ff) : bits >> 16 | 0x40;
    }
}

// Division by a scale that divides many numbers. near() has the bits of a division for numbers and
// scales of size 2^-60 to 2^60, quotients far below the smallest code apart; they round to 0 all
// the same.
struct Divisor {
    float scale, reciprocal;
    static constexpr float kLargest = 0x1p60f;

    static __device__ __forceinline__ Divisor of(float scale) {
        return {scale, __fdiv_rn(1.0f, scale)};
    }
    __device__ __forceinline__ bool is_near(float largest) const {
        return largest <= kLargest && scale <= kLargest && scale >= 1 / kLargest;
    }
    __device__ __forceinline__ float near(float x) const {
        float quotient = x * reciprocal;
        quotient = fmaf(fmaf(-quotient, scale, x), reciprocal, quotient);
        quotient = fmaf(fmaf(-quotient, scale, x), reciprocal, quotient);
        return copysignf(quotient, x);  // minus zero became zero
    }
};

}  // namespace quire::kernels::cuda
