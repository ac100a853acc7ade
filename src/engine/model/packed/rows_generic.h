// quantise_row in plain loops, which the compiler turns into each instruction set's vectors. Every
// operation is one IEEE operation or exact, so all give the same bits.
#pragma once

#include "engine/model/packed/rows.h"

namespace quire::packed::generic {

inline constexpr float kLargest = kLargestValue;
// Adding it leaves the rounded integer in the low bits of the sum, in every vector unit alike.
inline constexpr float kRounder = 0x1.8p23f;

template <class V>
[[gnu::always_inline]] inline int32_t round_even(float x) {
    return __builtin_bit_cast(int32_t, x + kRounder) - __builtin_bit_cast(int32_t, kRounder);
}

// V brings the layout of values.
template <class V>
void quantise(const float* in, int64_t n_in, std::byte* tile, int32_t slot) {
    for (int64_t b = 0; b < blocks_of(n_in); ++b, in += kInputs) {
        RowBlock& out = reinterpret_cast<RowBlock*>(tile)[b * kTileRows + slot];
        // Comparing bits lets a NaN win: it is above every number.
        int32_t top = 0;
        for (int i = 0; i < kInputs; ++i) {
            const int32_t bits = __builtin_bit_cast(int32_t, in[i]) & 0x7fffffff;
            top = top < bits ? bits : top;
        }
        const float largest = __builtin_bit_cast(float, top);
        const bool finite = top < 0x7f800000;
        // Of smaller numbers the inverse would not be finite.
        const bool zero = largest < 0x1p-100f;
        const float inverse = zero || !finite ? 0.0f : kLargest / largest;
        int32_t rounded[kInputs];
        for (int i = 0; i < kInputs; ++i) rounded[i] = finite ? round_even<V>(in[i] * inverse) : 0;
        V::store_values(rounded, &out);
        int32_t halves[2] = {};
        for (int i = 0; i < 16; ++i) halves[0] += rounded[i];
        for (int i = 16; i < kInputs; ++i) halves[1] += rounded[i];
        const int32_t whole = halves[0] + halves[1];
        out.step = !finite ? __builtin_nanf("") : zero ? 0.0f : largest / kLargest;
        out.sum = out.step * static_cast<float>(whole);
        out.whole_sum = whole;
        out.half_sums[0] = halves[0];
        out.half_sums[1] = halves[1];
    }
}

}  // namespace quire::packed::generic
