// From the planes of a hot page to the fragments of a matrix product, one thread's share at a time.
// The same code on CPU and GPU.
//
// Codes come in pairs of rows of layout.h (row r, which is even, and r + 1), four lanes at a time:
// a word of four bytes for each row. With K a row is a dimension and lanes are tokens; with V a row
// is sixteen dimensions of a token and lanes are dimensions. Levels are f16: two in a word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "codec/hot/layout.h"
#include "codec/hot/scale.h"
#include "kernels/cuda/ptx/words.cuh"

namespace quire::kernels::cuda {

// Four codes of each of two rows, a byte each.
struct CodePair {
    uint32_t low = 0;   // of the even row
    uint32_t high = 0;  // of the one after it
};

// Row base + constant + small, in parts so that all rows of a thread have one address and offsets
// that are known to the compiler. REQUIRES: base % 8 == 0; constant and small even; small < 8;
// constant % 8 + small < 8, or constant % 8 == 0.
struct PageRow {
    uint32_t base = 0;      // of all rows that the thread reads
    uint32_t small = 0;     // likewise
    uint32_t constant = 0;  // known to the compiler
};
QUIRE_HOST_DEVICE constexpr PageRow page_row(uint32_t row) {
    return {row & ~7u, row & 7u, 0};
}

// `load(offset, constant)` gives the aligned word at offset + constant of the page's side. `word`:
// which four of the sixteen lanes.
template <int kBits, int kPlane = 0, class Load>
QUIRE_HOST_DEVICE inline CodePair load_codes(const codec::hot::Shape& shape, const PageRow& row,
                                             uint32_t word, Load load) {
    namespace hot = codec::hot;
    constexpr int kWidth = hot::planes_of(kBits).width[kPlane];
    constexpr int kShift = hot::plane_shift(kBits, kPlane);
    constexpr uint32_t kRows = hot::rows_per_vector(kWidth);
    constexpr uint32_t kMask = ((1u << kWidth) - 1) * 0x01010101u;
    const auto at = static_cast<uint32_t>(hot::plane_offset(shape, kBits, kPlane)) +
                    (row.base / kRows + row.small / kRows) * hot::kLanes + word * 4;
    const uint32_t constant = row.constant / kRows * hot::kLanes;
    CodePair codes;
    if constexpr (kWidth == 8) {
        codes = {load(at, constant), load(at, constant + hot::kLanes)};
    } else {
        const uint32_t fields =
            load(at, constant) >> ((row.constant % kRows + row.small % kRows) * kWidth);
        codes.low = (fields & kMask) << kShift;
        codes.high = (fields >> kWidth & kMask) << kShift;
    }
    if constexpr (kPlane + 1 < hot::planes_of(kBits).count) {
        const CodePair rest = load_codes<kBits, kPlane + 1>(shape, row, word, load);
        codes.low |= rest.low;
        codes.high |= rest.high;
    }
    return codes;
}

// Two codes of a byte each, at the same place of two words, as one index of a table of pairs.
template <int kBits>
QUIRE_HOST_DEVICE inline uint32_t pair_indices(uint32_t first, uint32_t second) {
    static_assert(2 * kBits <= 8);
    return first | second << kBits;
}

// Integer levels: f16 of code - 2^(bits - 1) for bytes 0, 1 (half 0) or 2, 3 (half 1) of two words:
// {first byte 2 * half, second byte 2 * half}, {first byte 2 * half + 1, second ...} are words 0
// and 1, still 1024 + 2^(bits - 1) too high. subtract_bias() takes that off.
struct LevelPairs {
    uint32_t word[2];
};
QUIRE_HOST_DEVICE inline LevelPairs biased_levels(uint32_t first, uint32_t second, int half) {
    // f16 has 0x6400 + n = 1024 + n.
    const uint32_t pairs = pick_bytes(first, second, half == 0 ? 0x5140 : 0x7362);
    return {{pick_bytes(pairs, 0x64646464, 0x4140), pick_bytes(pairs, 0x64646464, 0x4342)}};
}

// The level of a code, as the oracle has it.
template <int kBits>
QUIRE_HOST_DEVICE inline float level_of(uint32_t code) {
    constexpr int kHalf = codec::hot::magnitudes(kBits);
    const int ranked = static_cast<int>(code) - kHalf;
    if constexpr (!codec::hot::is_lloyd(kBits)) return static_cast<float>(ranked);
    float level = 0;
    QUIRE_UNROLL(16)
    for (int i = 0; i < kHalf; ++i)  // constants, so that no table has to be in memory
        if (i == (ranked < 0 ? -1 - ranked : ranked)) level = codec::hot::lloyd_levels(kBits)[i];
    return ranked < 0 ? -level : level;
}

// Where a thread's keys and dimensions are. Lane 4g + t of a warp that reads 32 tokens, two groups
// of 16:
//
// Scores: the matrix product has tokens as rows. Tile 0 has in rows g and g + 8 tokens 0 and 1 of
// the thread's four, tile 1 tokens 2 and 3; they are tokens first_token(g) to + 3. Step s has in
// its columns 2t, 2t + 1, 2t + 8, 2t + 9 these dimensions plus 16 s.
//
// Values: the product has dimensions as rows, tokens as columns. Columns 2t, 2t + 1, 2t + 8, 2t + 9
// of tile j (0, 1) are tokens 8t + 2j, + 4, and 8t + 2j + 1, + 4: those that rows of the scores'
// tile j stand for. Rows g and g + 8 of tile 4i + b are dimensions value_dim(g, i, b) and + 16.
struct WarpMap {
    static QUIRE_HOST_DEVICE constexpr uint32_t first_token(uint32_t g) {
        return g / 4 * 16 + g % 4 * 4;
    }
    // Counted from 8t. k: 0 to 3 of the four columns.
    static QUIRE_HOST_DEVICE constexpr uint32_t token_of_column(uint32_t tile, uint32_t k) {
        return 2 * tile + (k & 1) * 4 + k / 2;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t block_pair(uint32_t g, uint32_t i) {
        return 2 * i + g / 4;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t value_dim(uint32_t g, uint32_t i, uint32_t b) {
        return block_pair(g, i) * 32 + g % 4 * 4 + b;
    }
    // Row of columns 2t, 2t + 1 (far: 2t + 8, 2t + 9) of the scores' step.
    static QUIRE_HOST_DEVICE constexpr PageRow key_row(uint32_t head_dim, uint32_t group,
                                                       uint32_t step, uint32_t t, bool far) {
        return {group * head_dim, 2 * t, 16 * step + (far ? 8u : 0u)};
    }
    // Row of dimensions value_dim(g, i, 0 to 3) of a column's token. `first`: token 8t of the page.
    static QUIRE_HOST_DEVICE constexpr PageRow value_row(uint32_t head_dim, uint32_t first,
                                                         uint32_t tile, uint32_t k, uint32_t g,
                                                         uint32_t i) {
        const uint32_t rows = head_dim / 16;  // of a token
        if (rows % 4 == 0)
            return {first * rows, 2 * (g / 4), token_of_column(tile, k) * rows + 4 * i};
        // Rows of a token that is no whole number of vectors; of a pair that is not there: the
        // token's first, which nobody reads.
        const uint32_t pair = block_pair(g, i) * 32 < head_dim ? block_pair(g, i) : 0;
        return page_row((first + token_of_column(tile, k)) * rows + 2 * pair);
    }
};

}  // namespace quire::kernels::cuda
