// quantise_row in plain loops, which the compiler turns into each instruction set's vectors. Every
// operation is one IEEE operation or exact, so all give the same bits.
#pragma once

#include "engine/model/packed/rows.h"

namespace quire::packed::generic {

inline constexpr float kLargest = 32767.0f;
// Adding it leaves the rounded integer in the low bits of the sum, in every vector unit alike.
inline constexpr float kRounder = 0x1.8p23f;

template <class V>
[[gnu::always_inline]] inline int32_t round_even(float x) {
    return __builtin_bit_cast(int32_t, x + kRounder) - __builtin_bit_cast(int32_t, kRounder);
}

// V only names the instruction set, so that no two share a function.
template <class V>
void quantise(const float* in, int64_t n_in, std::byte* row) {
    const Row at = row_at(row, n_in);
    auto* values = const_cast<int16_t*>(at.values);
    auto* steps = const_cast<float*>(at.steps);
    auto* sums = const_cast<float*>(at.sums);
    auto* half_sums = const_cast<int32_t*>(at.half_sums);
    for (int64_t b = 0; b < blocks_of(n_in); ++b, in += kInputs, values += kInputs) {
        // Comparing bits lets a NaN win: it is above every number.
        int32_t top = 0;
        for (int i = 0; i < kInputs; ++i) {
            const int32_t bits = __builtin_bit_cast(int32_t, in[i]) & 0x7fffffff;
            top = top < bits ? bits : top;
        }
        const float largest = __builtin_bit_cast(float, top);
        const bool finite = top < 0x7f800000;
        // Below the smallest normal step the inverse would not be finite.
        const bool zero = largest < 0x1p-100f;
        const float step = zero ? 0.0f : largest / kLargest;
        const float inverse = zero || !finite ? 0.0f : kLargest / largest;
        int32_t rounded[kInputs];
        for (int i = 0; i < kInputs; ++i) rounded[i] = finite ? round_even<V>(in[i] * inverse) : 0;
        for (int i = 0; i < kInputs; ++i) values[i] = static_cast<int16_t>(rounded[i]);
        int32_t sum[2] = {};
        for (int i = 0; i < 16; ++i) sum[0] += rounded[i];
        for (int i = 16; i < kInputs; ++i) sum[1] += rounded[i];
        steps[b] = finite ? step : __builtin_nanf("");
        sums[b] = steps[b] * static_cast<float>(sum[0] + sum[1]);
        half_sums[2 * b] = sum[0];
        half_sums[2 * b + 1] = sum[1];
    }
}

}  // namespace quire::packed::generic
