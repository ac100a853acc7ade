// Products of packed weights with rows of activations: one table row per instruction set.
//
// Every implementation gives the same bits, and a row's bits do not depend on the rows beside it.
// Per block of 32 inputs (16 for kind k6), s being an exact integer sum of (code - offset) value:
//   acc = fma(d_w step_a, float(s), acc);  then, where there are minima,  acc = fma(m_w, sum_a,
//   acc)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/packed/layout.h"
#include "kernels/attention.h"

namespace quire::packed {

struct Product {
    Layout layout;
    const std::byte* group;  // 16 outputs
    int64_t n_in;
    const std::byte* tile;  // rows 0..n_rows of a tile (rows.h)
    int32_t n_rows;         // at most kTileRows
    float* out;             // out[r * out_stride + i], i in [0, 16)
    int64_t out_stride;
};

// What a feed-forward layer's gate does: silu, or gelu in its tanh form.
enum class Gate : uint8_t { silu, gelu };

struct ProductOps {
    kernels::Isa isa;
    const char* name;
    bool (*cpu_has_it)();
    // Writes row `slot` of a tile; n_in % 32 == 0. value = round-to-nearest-even(x / step), step
    // the largest magnitude of the block /
    // kLargestValue. A NaN or an infinity makes its block's step, and
    // so its products, NaN.
    void (*quantise_row)(const float* in, int64_t n_in, std::byte* tile, int32_t slot);
    void (*multiply)(const Product& product);
    // out = kind(gate) * up, n numbers that do not overlap.
    void (*gate)(Gate kind, const float* gate, const float* up, int64_t n, float* out);
};

// Slowest first; the first row is the oracle.
std::span<const ProductOps> product_table();

// The fastest row for this CPU that needs no more than `isa`.
const ProductOps& best_product(kernels::Isa isa);

}  // namespace quire::packed
