// From the words of a chunk to codes, or to indices of tables that hold the levels of two or four
// codes at once. The same code on CPU and GPU.
//
// `load(at)` gives the word at a byte offset of the side in the slot (codec/chunk.h).
//
// To 4 bits a byte that holds several codes is an index as it is, or with little done to it:
//
//   bits | K: dimensions d, d + 1 of a token   | V: tokens k, k + 4 of a dimension
//   4    | d, d + 1 << 4                       | k, k + 4 << 4
//   3    | high bits d, d + 1 << 2;            | high bits k, k + 4 << 4;
//        | low bits d << 4, d + 1 << 5         | low bits k << 2, k + 4 << 3; bits 6, 7: anything
//   2    | d to d + 3: four codes, two entries | k, dim + 16 of k, k + 4, dim + 16 of k + 4: two
//
// Bits 6 and 7 of 3-bit indices may be anything. 5 bits: an index is one code.
#pragma once

#include "codec/hot/scale.h"
#include "kernels/cuda/codec/chunk.h"
#include "kernels/cuda/ptx/words.cuh"

namespace quire::kernels::cuda {

// Bits of `a` where the mask has ones, of `b` elsewhere.
QUIRE_HOST_DEVICE constexpr uint32_t select_bits(uint32_t mask, uint32_t a, uint32_t b) {
    return (a & mask) | (b & ~mask);
}
constexpr uint32_t kLowNibbles = 0x0f0f0f0f;

// Two codes whose levels are one entry of a table, f16 each: entry 0 or 1 of an index.
struct CodesOfEntry {
    uint32_t first = 0;
    uint32_t second = 0;
};
QUIRE_HOST_DEVICE constexpr CodesOfEntry k_entry(int bits, uint32_t index, uint32_t entry) {
    switch (bits) {
        case 4:
            return {index & 15, index >> 4};
        case 3:
            return {(index & 3) << 1 | (index >> 4 & 1), (index >> 2 & 3) << 1 | (index >> 5 & 1)};
        case 2:
            return {index >> (4 * entry) & 3, index >> (4 * entry + 2) & 3};
        default:
            return {index & 31, index & 31};
    }
}
QUIRE_HOST_DEVICE constexpr CodesOfEntry v_entry(int bits, uint32_t index, uint32_t entry) {
    switch (bits) {
        case 3:
            return {(index & 3) << 1 | (index >> 2 & 1), (index >> 4 & 3) << 1 | (index >> 3 & 1)};
        case 2:
            return {index >> (2 * entry) & 3, index >> (4 + 2 * entry) & 3};
        default:
            return k_entry(bits, index, entry);
    }
}

// Of a step of K: near is of the first two dimensions, far of the other two; with 2 bits near is of
// all four.
struct IndexPair {
    uint32_t near = 0;
    uint32_t far = 0;
};
template <uint32_t kHeadDim, int kBits, class Load>
QUIRE_HOST_DEVICE inline IndexPair k_indices(uint32_t g, uint32_t t, uint32_t step, Load load) {
    using Map = ChunkMap<kHeadDim>;
    static_assert(kBits <= 4);
    if constexpr (kBits == 4) {
        return {load(Map::k_word(4, g, t, step, 0)), load(Map::k_word(4, g, t, step, 1))};
    } else if constexpr (kBits == 3) {
        const uint32_t twos = load(Map::k_word(2, g, t, step, 0));
        constexpr uint32_t kOnes = Map::k_plane(3, 1);
        const uint32_t ones = load(kOnes + Map::k_word(1, g, t, step, 0))
                              << (4 - Map::k_shift(1, t));
        return {select_bits(kLowNibbles, twos, ones),
                select_bits(kLowNibbles, twos >> 4, ones >> 2)};
    } else {
        return {load(Map::k_word(2, g, t, step, 0)), 0};
    }
}

// Of row j of part i of tokens k and k + 4 of V, where rows of a pair may lie in two words:
// v_entry()'s index; with 2 bits of a row alone, the other one's bits are zero.
template <uint32_t kHeadDim, int kBits, class Load>
QUIRE_HOST_DEVICE inline uint32_t v_row_index(uint32_t g, uint32_t t, uint32_t k, uint32_t i,
                                              uint32_t j, Load load) {
    using Map = ChunkMap<kHeadDim>;
    const auto row = [&](uint32_t width, uint32_t plane_at, uint32_t token) {
        return load(plane_at + Map::v_word(width, g, t, token, i, j)) >>
               Map::v_shift(width, g, token, i, j);
    };
    if constexpr (kBits == 4) return select_bits(kLowNibbles, row(4, 0, k), row(4, 0, k + 4) << 4);
    constexpr uint32_t kTwos = 0x03030303, kOnes = 0x01010101;
    const uint32_t twos = (row(2, 0, k) & kTwos) | (row(2, 0, k + 4) & kTwos) << 4;
    if constexpr (kBits == 2) return twos;
    constexpr uint32_t kPlane = Map::v_plane(3, 1);
    return twos | (row(1, kPlane, k) & kOnes) << 2 | (row(1, kPlane, k + 4) & kOnes) << 3;
}

// Of tokens k and k + 4 of V: near is of part i's first 16 dimensions, far of the 16 after them;
// with 2 bits near is of both.
template <uint32_t kHeadDim, int kBits, class Load>
QUIRE_HOST_DEVICE inline IndexPair v_indices(uint32_t g, uint32_t t, uint32_t k, uint32_t i,
                                             Load load) {
    using Map = ChunkMap<kHeadDim>;
    static_assert(kBits <= 4);
    if constexpr (!Map::kPairsWhole) {
        const uint32_t near = v_row_index<kHeadDim, kBits>(g, t, k, i, 0, load);
        const uint32_t far = v_row_index<kHeadDim, kBits>(g, t, k, i, 1, load);
        if constexpr (kBits == 2) return {near | far << 2, 0};
        return {near, far};
    }
    constexpr uint32_t kWidth = kBits == 4 ? 4 : 2;
    const uint32_t first = load(Map::v_word(kWidth, g, t, k, i, 0));
    const uint32_t second = load(Map::v_word(kWidth, g, t, k + 4, i, 0));
    if constexpr (kBits == 4)
        return {select_bits(kLowNibbles, first, second << 4),
                select_bits(kLowNibbles, first >> 4, second)};
    const uint32_t shift = Map::v_shift(2, g, k, i);  // of both: four tokens are whole words
    const uint32_t twos = select_bits(kLowNibbles, first >> shift, second << (4 - shift));
    if constexpr (kBits == 2) return {twos, 0};
    constexpr uint32_t kOnes = Map::v_plane(3, 1);
    const uint32_t a = load(kOnes + Map::v_word(1, g, t, k, i, 0));
    const uint32_t b = load(kOnes + Map::v_word(1, g, t, k + 4, i, 0));
    // Bits 2n and 2n + 1 of a byte: of row 2n, or 2n + 1, of both tokens; those of this row to 2.
    const uint32_t even = select_bits(0x55555555, a, b << 1);
    const uint32_t odd = select_bits(0x55555555, a >> 1, b);
    const uint32_t down = Map::v_shift(1, g, k, i) - 2;
    return {select_bits(0x33333333, twos, rotate_right(even, down)),
            select_bits(0x33333333, twos >> 2, rotate_right(odd, down))};
}

// Four codes of each of a few rows, a byte each.
template <int kRows>
struct CodeRows {
    uint32_t row[kRows] = {};
};

// The four dimensions of a step.
template <uint32_t kHeadDim, int kBits, int kPlane = 0, class Load>
QUIRE_HOST_DEVICE inline CodeRows<4> k_codes(uint32_t g, uint32_t t, uint32_t step, Load load) {
    using Map = ChunkMap<kHeadDim>;
    constexpr uint32_t kWidth = codec::hot::planes_of(kBits).width[kPlane];
    constexpr int kShift = codec::hot::plane_shift(kBits, kPlane);
    constexpr uint32_t kMask = ((1u << kWidth) - 1) * 0x01010101u, kRows = 8 / kWidth;
    constexpr uint32_t kPlaneAt = Map::k_plane(kBits, kPlane);
    CodeRows<4> codes;
    QUIRE_UNROLL(4)
    for (uint32_t r = 0; r < 4; ++r) {
        const uint32_t word = load(kPlaneAt + Map::k_word(kWidth, g, t, step, r / kRows));
        const uint32_t at = Map::k_shift(kWidth, t) + r % kRows * kWidth;
        codes.row[r] = (word >> at & kMask) << kShift;
    }
    if constexpr (kPlane + 1 < codec::hot::planes_of(kBits).count) {
        const CodeRows<4> rest = k_codes<kHeadDim, kBits, kPlane + 1>(g, t, step, load);
        QUIRE_UNROLL(4)
        for (int r = 0; r < 4; ++r) codes.row[r] |= rest.row[r];
    }
    return codes;
}

// Part i of token 8t + k: the first 16 dimensions, and those after them.
template <uint32_t kHeadDim, int kBits, int kPlane = 0, class Load>
QUIRE_HOST_DEVICE inline CodeRows<2> v_codes(uint32_t g, uint32_t t, uint32_t k, uint32_t i,
                                             Load load) {
    using Map = ChunkMap<kHeadDim>;
    constexpr uint32_t kWidth = codec::hot::planes_of(kBits).width[kPlane];
    constexpr int kShift = codec::hot::plane_shift(kBits, kPlane);
    constexpr uint32_t kMask = ((1u << kWidth) - 1) * 0x01010101u;
    constexpr uint32_t kPlaneAt = Map::v_plane(kBits, kPlane);
    CodeRows<2> codes;
    QUIRE_UNROLL(2)
    for (uint32_t r = 0; r < 2; ++r) {
        const uint32_t word = load(kPlaneAt + Map::v_word(kWidth, g, t, k, i, r));
        const uint32_t at = kWidth == 8 ? 0 : Map::v_shift(kWidth, g, k, i, r);
        codes.row[r] = (word >> at & kMask) << kShift;
    }
    if constexpr (kPlane + 1 < codec::hot::planes_of(kBits).count) {
        const CodeRows<2> rest = v_codes<kHeadDim, kBits, kPlane + 1>(g, t, k, i, load);
        codes.row[0] |= rest.row[0];
        codes.row[1] |= rest.row[1];
    }
    return codes;
}

// Integer levels: f16 of code - 2^(bits - 1) for bytes 0, 1 (half 0) or 2, 3 (half 1) of two words:
// {first byte 2 * half, second byte 2 * half}, {first byte 2 * half + 1, second ...} are words 0
// and 1, still 1024 + 2^(bits - 1) too high.
struct LevelPairs {
    uint32_t word[2];
};
QUIRE_HOST_DEVICE inline LevelPairs biased_levels(uint32_t first, uint32_t second, int half) {
    // f16 has 0x6400 + n = 1024 + n.
    const uint32_t pairs = pick_bytes(first, second, half == 0 ? 0x5140 : 0x7362);
    return {{pick_bytes(pairs, 0x64646464, 0x4140), pick_bytes(pairs, 0x64646464, 0x4342)}};
}

// The level of a code, as the oracle has it.
QUIRE_HOST_DEVICE inline float level_of(int bits, uint32_t code) {
    const int half = codec::hot::magnitudes(bits);
    const int ranked = static_cast<int>(code) - half;
    if (!codec::hot::is_lloyd(bits)) return static_cast<float>(ranked);
    const float level = codec::hot::lloyd_levels(bits)[ranked < 0 ? -1 - ranked : ranked];
    return ranked < 0 ? -level : level;
}

}  // namespace quire::kernels::cuda
