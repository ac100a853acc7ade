// Numbers to 8-bit and 16-bit floats, to the bits of codec/fp8 and codec/raw16.
//
// pair() uses the conversion instructions, which agree with the oracles for all numbers but NaN:
// those lose their sign and what else they hold. careful() takes any number.
#pragma once

#include <cstdint>
#include <type_traits>

#include "codec/fp8/format.h"
#include "kernels/cuda/ptx/floats.cuh"

namespace quire::kernels::cuda {

struct E4m3Code {
    using Code = uint8_t;
    static constexpr codec::fp8::Format kFormat = codec::fp8::kE4m3;
    // a in the low byte.
    static __device__ __forceinline__ uint32_t pair(float a, float b) { return e4m3_pair(a, b); }
};
struct E5m2Code {
    using Code = uint8_t;
    static constexpr codec::fp8::Format kFormat = codec::fp8::kE5m2;
    static __device__ __forceinline__ uint32_t pair(float a, float b) { return e5m2_pair(a, b); }
};
struct F16Code {
    using Code = uint16_t;
    static __device__ __forceinline__ uint32_t pair(float a, float b) { return f16_pair(a, b); }
};
struct Bf16Code {
    using Code = uint16_t;
    static __device__ __forceinline__ uint32_t pair(float a, float b) { return bf16_pair(a, b); }
};

template <class Target>
inline constexpr bool kIsFp8 = sizeof(typename Target::Code) == 1;

// Of 8-bit formats; of the others, which have no scales, 1.
template <class Target>
constexpr float largest_code() {
    if constexpr (kIsFp8<Target>)
        return Target::kFormat.largest;
    else
        return 1.0f;
}

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

// Division by a scale that divides many numbers, for numbers and scales of size 2^-60 to 2^60.
// Quotients far below the smallest code are not exact, but round to 0 all the same.
//
// near() has the bits of a division. near_short(), for numbers of at most 11 bits, has those of the
// reciprocal as the sum of two: its error of 2^-45 can move a quotient only across the middle of
// two float32, which changes a code only beside a middle m of two codes. With the number 2^k x, the
// scale s and the middle m as integers of p, 24 and 5 bits that takes
// |2^k x - 2^20 m s -+ s| < 16: s is then within 16 of a multiple i of 2^20, and m divides i, which
// is at most 16. So m is 16 and s is 2^24 - 1, where the second part is rounded up, as it must be.
struct Divisor {
    float scale, reciprocal;
    float high, low;  // of the reciprocal, neither negative, so that minus zero stays
    static constexpr float kLargest = 0x1p60f;

    static __device__ __forceinline__ Divisor of(float scale) {
        const float reciprocal = __frcp_rn(scale);
        const float rest = fmaf(-reciprocal, scale, 1.0f);
        const float high = rest < 0 ? __uint_as_float(__float_as_uint(reciprocal) - 1) : reciprocal;
        return {scale, reciprocal, high, fmaf(-high, scale, 1.0f) * reciprocal};
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
    __device__ __forceinline__ float near_short(float x) const { return fmaf(x, high, x * low); }
};

}  // namespace quire::kernels::cuda
