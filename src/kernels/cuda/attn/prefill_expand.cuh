// From codes of a chunk to numbers in shared memory, as operands of products of warpgroups: levels
// times scales, f16, in narrow tiles (ptx/wgmma.cuh). One warp.
//
// Keys are rows of K's tiles and run along rows of V's, in one order: position 8i + 2k + e of a
// chunk is token 8i + k + 4e. So a lane's levels of V, which come as pairs of tokens k and k + 4,
// follow each other. Of K a tile has 32 dimensions: position 8t + 4s + r is column r of four of
// lane t in step s of two (k_dim of codec/chunk.h); queries have the same order. Rows of V's tiles
// are dimensions: row 4b + g of 16 is dimension 4g + b. In these orders the vectors that eight
// lanes write lie in banks of their own.
#pragma once

#include "kernels/cuda/attn/warp_state.cuh"

namespace quire::kernels::cuda {

__device__ __forceinline__ uint32_t times(uint32_t pair, uint32_t scales) {
    const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&pair),
                                    *reinterpret_cast<const __half2*>(&scales));
    return *reinterpret_cast<const uint32_t*>(&product);
}

// Codes of a step of K, and of four pairs of tokens of a part of V, on their way to levels: those
// of the next step are loaded before this one's numbers are stored, which loads may not overtake.
template <int kHeadDim, int kBits>
struct KeyCodes {
    IndexPair indices;
    CodeRows<4> codes;

    template <class Load>
    __device__ __forceinline__ KeyCodes(uint32_t g, uint32_t t, uint32_t step, const Load& load) {
        if constexpr (kBits <= 4)
            indices = k_indices<kHeadDim, kBits>(g, t, step, load);
        else
            codes = k_codes<kHeadDim, kBits>(g, t, step, load);
    }
    __device__ __forceinline__ void look_up(const LevelTable& table, uint32_t (&near)[4],
                                            uint32_t (&far)[4]) const {
        if constexpr (kBits <= 4) {
            table.look_up_pairs<kBits>(indices, near, far);
        } else {
            table.levels_of<kBits>(codes.row[0], codes.row[1], near);
            table.levels_of<kBits>(codes.row[2], codes.row[3], far);
        }
    }
};
template <int kHeadDim, int kBits>
struct ValueCodes {
    IndexPair indices[4];
    CodeRows<2> first[4], second[4];

    template <class Load>
    __device__ __forceinline__ ValueCodes(uint32_t g, uint32_t t, uint32_t i, const Load& load) {
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            if constexpr (kBits <= 4) {
                indices[k] = v_indices<kHeadDim, kBits>(g, t, k, i, load);
            } else {
                first[k] = v_codes<kHeadDim, kBits>(g, t, k, i, load);
                second[k] = v_codes<kHeadDim, kBits>(g, t, k + 4, i, load);
            }
        }
    }
    __device__ __forceinline__ void look_up(const LevelTable& table, uint32_t k, uint32_t (&low)[4],
                                            uint32_t (&high)[4]) const {
        if constexpr (kBits <= 4) {
            table.look_up_pairs<kBits>(indices[k], low, high);
        } else {
            table.levels_of<kBits>(first[k].row[0], second[k].row[0], low);
            table.levels_of<kBits>(first[k].row[1], second[k].row[1], high);
        }
    }
};

// raw: codes of K of the chunk, as codec/chunk.h has them. to: row 0 of the chunk in the tile of
// the first 32 dimensions; tile_bytes: to the next one's.
template <int kHeadDim, int kBits>
__device__ __forceinline__ void expand_keys(uint32_t raw, uint32_t scales_at, uint32_t to,
                                            uint32_t tile_bytes, const LevelTable& table) {
    constexpr uint32_t kSteps = ChunkMap<kHeadDim>::kSteps;
    const uint32_t lane = opaque(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const auto load = [&](uint32_t at) { return load_shared(raw + at); };
    const uint32_t units = load_shared(scales_at + first_token(g));
    uint32_t scales[4];
#pragma unroll
    for (uint32_t b = 0; b < 4; ++b) {
        const float scale = scale_of(units, b, -static_cast<float>(codec::hot::octaves(kBits)));
        scales[b] = f16_pair(scale, scale);
    }
    to += (g / 2 * 8 + g % 2) * 64;
    KeyCodes<kHeadDim, kBits> next[2] = {{g, t, 0, load}, {g, t, 1, load}};
#pragma unroll
    for (uint32_t pair = 0; pair < kSteps / 2; ++pair) {
        uint32_t near[2][4], far[2][4];
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
            const KeyCodes<kHeadDim, kBits> codes = next[i];
            if (pair + 1 < kSteps / 2) next[i] = {g, t, 2 * pair + 2 + i, load};
            codes.look_up(table, near[i], far[i]);
        }
#pragma unroll
        for (uint32_t b = 0; b < 4; ++b)
            store_shared_16(to + pair * tile_bytes + b * 128 + (t ^ b) * 16,
                            {times(near[0][b], scales[b]), times(far[0][b], scales[b]),
                             times(near[1][b], scales[b]), times(far[1][b], scales[b])});
    }
}

// Likewise of V; `to`: the chunk's tile of [head_dim] rows.
template <int kHeadDim, int kBits>
__device__ __forceinline__ void expand_values(uint32_t raw, uint32_t scales_at, uint32_t to,
                                              const LevelTable& table) {
    using Map = ChunkMap<kHeadDim>;
    const uint32_t lane = opaque(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const auto load = [&](uint32_t at) { return load_shared(raw + at); };
    uint32_t scales[4];
    {
        constexpr float kOctaves = -static_cast<float>(codec::hot::octaves(kBits));
        const uint32_t low = load_shared(scales_at + 8 * t),
                       high = load_shared(scales_at + 8 * t + 4);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k)
            scales[k] = f16_pair(scale_of(low, k, kOctaves), scale_of(high, k, kOctaves));
    }
    ValueCodes<kHeadDim, kBits> next = {g, t, 0, load};
#pragma unroll
    for (uint32_t i = 0; i < Map::kParts; ++i) {
        if (kBits > 4 && i > 0) next = {g, t, i, load};  // registers do not hold two
        const ValueCodes<kHeadDim, kBits> codes = next;
        if (kBits <= 4 && i + 1 < Map::kParts) next = {g, t, i + 1, load};
        uint32_t low[4][4], high[4][4];
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) codes.look_up(table, k, low[k], high[k]);
        if (!Map::has_row(g, i, 0)) continue;
        const uint32_t row = Map::pair_of(g, i) * 32 + g % 4;
#pragma unroll
        for (uint32_t b = 0; b < 4; ++b) {
            const uint32_t at = to + (row + 4 * b) * 64 + (t ^ (b % 2 * 2 + g % 4 / 2)) * 16;
            store_shared_16(at, {times(low[0][b], scales[0]), times(low[1][b], scales[1]),
                                 times(low[2][b], scales[2]), times(low[3][b], scales[3])});
            store_shared_16(at + 16 * 64,
                            {times(high[0][b], scales[0]), times(high[1][b], scales[1]),
                             times(high[2][b], scales[2]), times(high[3][b], scales[3])});
        }
    }
}

}  // namespace quire::kernels::cuda
