// Activations for products with packed weights: 16-bit integers with one step per 32 inputs.
//
// ggml rounds activations to 8 bits, which is most of what separates a quantised model's logits
// from those of its dequantised weights. 16 bits cost AVX2 nothing (it multiplies 16-bit lanes
// anyway) and decodes nothing (they wait for memory).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/packed/layout.h"

namespace quire::packed {

// A row in memory is its four arrays one after the other.
struct Row {
    const int16_t* values;     // [n_in]
    const float* steps;        // [n_in / 32]
    const float* sums;         // [n_in / 32] step times the sum of the block's values
    const int32_t* half_sums;  // [n_in / 16] sums of values
};

[[gnu::always_inline]] constexpr size_t row_bytes(int64_t n_in) {
    const auto n = static_cast<size_t>(n_in);
    return n * sizeof(int16_t) + n / 32 * 2 * sizeof(float) + n / 16 * sizeof(int32_t);
}

[[gnu::always_inline]] inline Row row_at(const std::byte* row, int64_t n_in) {
    const auto* steps =
        reinterpret_cast<const float*>(row + static_cast<size_t>(n_in) * sizeof(int16_t));
    const float* sums = steps + blocks_of(n_in);
    return {reinterpret_cast<const int16_t*>(row), steps, sums,
            reinterpret_cast<const int32_t*>(sums + blocks_of(n_in))};
}

}  // namespace quire::packed
