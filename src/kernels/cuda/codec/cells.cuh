// Which threshold a number may have to be compared with, by a table that lies in the registers of a
// warp: an entry a thread, looked up by a shuffle. The index is the low bits of a fused
// multiplication and addition, so that a look-up is two instructions.
//
// Cells are alike in width. Tables are made when the kernel is compiled, which fails when a cell
// would need two thresholds.
#pragma once

#include <cstdint>

#include "codec/hot/scale.h"

namespace quire::kernels::cuda {

// Adding it rounds to an integer, which is then in the lowest bits.
inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23

// Cell i has the numbers that `cells_per_unit * x` rounds to i.
constexpr double cell_begin(float cells_per_unit, int cell) {
    return (cell - 0.5) / double{cells_per_unit};
}

// Magnitudes over a scale. The threshold at `index` is the only one that numbers of the cell cross
// while the scale goes from `low` to `high` times its size. Both widen a cell by what rounding
// does.
struct MagnitudeCells {
    float threshold[32];
    float half_step[32];  // from the threshold to the levels next to it
    int32_t index[32];    // of the threshold: levels below it
    bool good;
};
template <int kBits>
constexpr MagnitudeCells magnitude_cells(float cells_per_unit, double low, double high) {
    namespace hot = codec::hot;
    constexpr double kMargin = 1e-4;
    constexpr int kCount = hot::magnitudes(kBits) - 1;
    const float* thresholds = hot::lloyd_thresholds(kBits);
    const float* levels = hot::lloyd_levels(kBits);
    MagnitudeCells cells{};
    cells.good = true;
    for (int cell = 0; cell < 32; ++cell) {
        const double begin = cell_begin(cells_per_unit, cell) - kMargin;
        const double end = cell_begin(cells_per_unit, cell + 1) + kMargin;
        int i = 0;
        while (i < kCount - 1 && end > low * double{thresholds[i + 1]}) ++i;
        cells.good = cells.good && (i == 0 || begin >= high * double{thresholds[i - 1]});
        cells.threshold[cell] = thresholds[i];
        cells.half_step[cell] = 0.5f * (levels[i + 1] - levels[i]);
        cells.index[cell] = i;
    }
    return cells;
}

// Numbers with their sign; cell i is entry i % 32. A number that is at least the cell's threshold
// has `code`, one below it code - 1; the zero below zero is below zero.
struct SignedCells {
    float threshold[32];
    int32_t code[32];
    bool good;
};
template <int kBits>
constexpr SignedCells signed_cells(float cells_per_unit) {
    namespace hot = codec::hot;
    constexpr double kMargin = 1e-4;
    constexpr int kHalf = hot::magnitudes(kBits);
    SignedCells cells{};
    cells.good = true;
    for (int cell = -16; cell < 16; ++cell) {
        const double begin = cell_begin(cells_per_unit, cell) - kMargin;
        const double end = cell_begin(cells_per_unit, cell + 1) + kMargin;
        int below = 0, inside = 0;
        float threshold = -1e30f;
        for (int code = 1; code < 2 * kHalf; ++code) {  // between code - 1 and code
            const int i = code < kHalf ? kHalf - 1 - code : code - kHalf - 1;
            float at = code == kHalf ? 0.0f : hot::lloyd_thresholds(kBits)[i];
            // The outer code has the threshold itself.
            if (code < kHalf) at = -__builtin_bit_cast(float, __builtin_bit_cast(uint32_t, at) - 1);
            if (double{at} <= begin) ++below;
            if (double{at} <= begin || double{at} >= end) continue;
            threshold = at;
            ++inside;
        }
        cells.good = cells.good && inside <= 1;
        cells.threshold[cell & 31] = threshold;
        cells.code[cell & 31] = below + inside;
    }
    return cells;
}

}  // namespace quire::kernels::cuda
