// The gate of a feed-forward layer in plain loops, which the compiler turns into each instruction
// set's vectors. Every operation is one IEEE operation, so all give the same bits.
//
// silu(x) = x / (1 + e^-x), and gelu in its tanh form is x / (1 + e^-2u), u = sqrt(2 / pi)
// (x + .044715 x^3): both x times a logistic function, whose power of two is attention's
// (kernels/attention_math.h) over the whole range: 2^n p(f), y = n + f.
#pragma once

#include <cstdint>

#include "engine/model/packed/product.h"
#include "kernels/attention_math.h"

namespace quire::packed::generic {

inline constexpr float kGeluLinear = 2 * 0.797884560802865355f * kernels::kLog2e;
inline constexpr float kGeluCubic = 0.044715f;
// Beyond it 1 + 2^y is 1 or 2^y in float; keeps the sum of exponents a normal number's.
inline constexpr float kPowerMost = 126;
inline constexpr float kIntegers = 0x1.8p23f;  // adding it rounds to an integer, halves to even

[[gnu::always_inline]] inline float power_of_two(float y) {
    using namespace kernels;
    y = y < kPowerMost ? y : kPowerMost;  // a NaN too
    y = y > -kPowerMost ? y : -kPowerMost;
    const float shifted = y + kIntegers;
    const float f = y - (shifted - kIntegers);
    float p = __builtin_fmaf(kExp2C5, f, kExp2C4);
    p = __builtin_fmaf(p, f, kExp2C3);
    p = __builtin_fmaf(p, f, kExp2C2);
    p = __builtin_fmaf(p, f, kExp2C1);
    p = __builtin_fmaf(p, f, 1.0f);
    const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) << 23;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, p) + exponent);
}

template <bool kGelu>
[[gnu::always_inline]] inline void gate_all(const float* gate, const float* up, int64_t n,
                                            float* out) {
    for (int64_t i = 0; i < n; ++i) {
        const float x = gate[i];
        float y = -kernels::kLog2e * x;
        if constexpr (kGelu)
            y = -kGeluLinear * __builtin_fmaf(kGeluCubic * x * x, x, x);
        out[i] = x / (1.0f + power_of_two(y)) * up[i];
    }
}

[[gnu::always_inline]] inline void gate(Gate kind, const float* gate, const float* up, int64_t n,
                                        float* out) {
    if (kind == Gate::silu)
        gate_all<false>(gate, up, n, out);
    else
        gate_all<true>(gate, up, n, out);
}

}  // namespace quire::packed::generic
