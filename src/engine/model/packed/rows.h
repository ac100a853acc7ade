// Activations for products with packed weights: 16-bit integers with one step per 32 inputs.
//
// ggml rounds activations to 8 bits, which is most of what separates a quantised model's logits
// from those of its dequantised weights. 16 bits cost AVX2 nothing (it multiplies 16-bit lanes
// anyway) and decodes nothing (they wait for memory).
//
// Rows lie in tiles of 8: for each block of 32 inputs the records of the tile's rows, side by side.
// A product then reaches all rows from one pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/packed/layout.h"

namespace quire::packed {

inline constexpr int32_t kTileRows = 8;
inline constexpr int32_t kLargestValue = 127 * 256 + 127;

// One row's 32 inputs, whose magnitude is at most kLargestValue.
struct RowBlock {
    // What an instruction set multiplies: 16-bit values in order, or for VNNI, which multiplies
    // bytes, two planes: value = 256 high + low, each 4 in the order of layout.h.
    union {
        int16_t values[kInputs];
        struct {
            int8_t high[kInputs];
            int8_t low[kInputs];
        } planes;
    };
    float step;
    float sum;             // step times the sum of all values
    int32_t whole_sum;     // of values
    int32_t half_sums[2];  // of values 0..15 and 16..31
    int32_t padding[3];
};
static_assert(sizeof(RowBlock) == 96);

[[gnu::always_inline]] constexpr size_t tile_bytes(int64_t n_in) {
    return static_cast<size_t>(blocks_of(n_in)) * kTileRows * sizeof(RowBlock);
}
// For any number of rows.
[[gnu::always_inline]] constexpr size_t rows_bytes(int64_t n_in, int32_t n_rows) {
    return static_cast<size_t>((n_rows + kTileRows - 1) / kTileRows) * tile_bytes(n_in);
}
// Row `slot` of a tile in block b.
[[gnu::always_inline]] inline const RowBlock& row_block(const std::byte* tile, int64_t b,
                                                        int32_t slot) {
    return reinterpret_cast<const RowBlock*>(tile)[b * kTileRows + slot];
}

}  // namespace quire::packed
