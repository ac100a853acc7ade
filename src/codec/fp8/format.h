// The two 8-bit float formats, as the few numbers that rounding to them needs.
#pragma once

#include <cstdint>

namespace quire::codec::fp8 {

// A sign, exponent bits, mantissa bits. Both have 0x7f and 0xff as (a) NaN.
struct Format {
    int shift;              // from a float32's mantissa to this one's
    float largest;          // finite
    float smallest_normal;  // below it codes are multiples of subnormal_step
    float subnormal_step;
    float rounder;     // a power of two whose unit in the last place is subnormal_step
    int32_t rebias;    // exponent of 0 against a float32's, in units of the code
    int32_t infinity;  // code of the first that is not finite
};

// "FN": no infinity, 0x7f alone is NaN.
inline constexpr Format kE4m3 = {20, 448.0f, 0x1p-6f, 0x1p-9f, 0x1p14f, (127 - 7) << 3, 0x7f};
// IEEE-like: 0x7c is infinity, above are NaNs.
inline constexpr Format kE5m2 = {21, 57344.0f, 0x1p-14f, 0x1p-16f, 0x1p7f, (127 - 15) << 2, 0x7c};

inline constexpr int32_t kNan = 0x7f;

// Of one scale per row, stored as f16.
inline constexpr float kSmallestScale = 0x1p-24f;
inline constexpr float kLargestScale = 65504.0f;

}  // namespace quire::codec::fp8
