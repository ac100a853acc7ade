// One warp's part of a decode: kUnits times 32 tokens at a time, for kTiles times 8 query rows of
// one KV head.
//
// Lane 4g + t holds scores of tokens first_token(g) to + 3 for query rows 2t and 2t + 1 of each
// tile, and sums for those rows and the dimensions of codec/chunk.h's value tiles. Codes of a chunk
// become operands once and serve every tile of rows.
#pragma once

#include "kernels/attention_math.h"
#include "kernels/cuda/attn/levels.cuh"
#include "kernels/cuda/ptx/exp2.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace quire::kernels::cuda {

inline constexpr float kNoScore = -INFINITY;
// Weights are in units of a score that may be this many octaves below the largest one, so that sums
// need not follow every new largest; with scales of values they stay below 2^(8 + 6) in f16, which
// leaves it as many octaves for small ones.
inline constexpr float kSlackOctaves = 8;
inline constexpr float kWeightOctaves = 6;

// 2^(unit / 16 + octaves) of byte i of a word of scales; a row of zeros has unit 0, and codes of
// any level.
__device__ __forceinline__ float scale_of(uint32_t units, uint32_t i, float octaves) {
    constexpr float kBias = 8388608.0f;  // 2^23: a byte above it is its last digits
    const float unit = __uint_as_float(__byte_perm(units, 0x4b000000, 0x7650 + i));
    return unit == kBias ? 0.0f : exp2_fast(fmaf(unit, 0.0625f, octaves - kBias * 0.0625f));
}

template <int kHeadDim, int kTiles, int kUnits>
struct WarpState {
    using Map = ChunkMap<kHeadDim>;
    static constexpr int kSteps = Map::kSteps;
    static constexpr int kParts = Map::kParts;

    float out[kTiles][4 * kParts][4];
    // Of rows 2t and 2t + 1. max: about the largest score; sum: of this lane's tokens.
    float max[kTiles][2], sum[kTiles][2];
    int32_t v_unit;  // sums are in units of the scale with this number

    using Scores = float[kUnits][kTiles][2][4];
    using Weights = uint32_t[kUnits][kTiles][2][2];
    using Slots = uint32_t[kUnits];  // in shared memory

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto& rows : out)
#pragma unroll
            for (auto& tile : rows) tile[0] = tile[1] = tile[2] = tile[3] = 0;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
            max[n][0] = max[n][1] = kNoScore;
            sum[n][0] = sum[n][1] = 0;
        }
        v_unit = 0;
    }

    // q: [kTiles][kSteps][32 lanes] in shared memory, rotated, scaled, f16. K comes first in a
    // slot.
    template <int kBits, class Levels>
    __device__ __forceinline__ void add_scores(const Slots& slots, const Levels& table,
                                               const uint2* q, Scores& s) const {
        const uint32_t lane = opaque(threadIdx.x % 32), g = lane / 4, t = lane % 4;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            uint2 x[kTiles];
#pragma unroll
            for (int n = 0; n < kTiles; ++n) x[n] = q[(n * kSteps + step) * 32 + lane];
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
                const auto load = [&](uint32_t at) { return load_shared(slots[u] + at); };
                uint32_t near[4], far[4];
                if constexpr (kBits <= 4) {
                    table.template look_up_pairs<kBits>(
                        k_indices<kHeadDim, kBits>(g, t, step, load), near, far);
                } else {
                    const CodeRows<4> codes =
                        table.template keys<kHeadDim, kBits>(g, t, step, load);
                    table.template levels_of<kBits>(codes.row[0], codes.row[1], near);
                    table.template levels_of<kBits>(codes.row[2], codes.row[3], far);
                }
#pragma unroll
                for (int n = 0; n < kTiles; ++n) {
                    mma_f16(s[u][n][0], {near[0], near[1], far[0], far[1]}, {x[n].x, x[n].y});
                    mma_f16(s[u][n][1], {near[2], near[3], far[2], far[3]}, {x[n].x, x[n].y});
                }
            }
        }
    }

    // w: weights of the scores' tiles as the second operand, f16. values: offset of V in a slot.
    template <int kBits, class Levels>
    __device__ __forceinline__ void add_values(const Slots& slots, uint32_t values,
                                               const Levels& table, const Weights& w) {
        const uint32_t lane = opaque(threadIdx.x % 32), g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
#pragma unroll
            for (int tile = 0; tile < 2 * kUnits; ++tile) {
                const int u = tile / 2;
                const auto load = [&](uint32_t at) { return load_shared(slots[u] + values + at); };
                uint32_t low[2][4], high[2][4];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int k = tile % 2 * 2 + half;
                    if constexpr (kBits <= 4) {
                        table.template look_up_pairs<kBits>(
                            v_indices<kHeadDim, kBits>(g, t, k, i, load), low[half], high[half]);
                    } else {
                        const CodeRows<2> a = v_codes<kHeadDim, kBits>(g, t, k, i, load);
                        const CodeRows<2> b = v_codes<kHeadDim, kBits>(g, t, k + 4, i, load);
                        table.template levels_of<kBits>(a.row[0], b.row[0], low[half]);
                        table.template levels_of<kBits>(a.row[1], b.row[1], high[half]);
                    }
                }
#pragma unroll
                for (int b = 0; b < 4; ++b)
#pragma unroll
                    for (int n = 0; n < kTiles; ++n)
                        mma_f16(out[n][4 * i + b], {low[0][b], high[0][b], low[1][b], high[1][b]},
                                w[u][n][tile % 2]);
            }
        }
    }

    // Scores to weights, in units of max; earlier sums follow when that has to grow.
    __device__ __forceinline__ void weigh(Scores& s) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
            float top[2] = {kNoScore, kNoScore};
#pragma unroll
            for (int u = 0; u < kUnits; ++u)
#pragma unroll
                for (int i = 0; i < 8; ++i) top[i % 2] = fmaxf(top[i % 2], s[u][n][i / 4][i % 4]);
            if (__any_sync(0xffffffff, top[0] > max[n][0] + kSlackOctaves ||
                                           top[1] > max[n][1] + kSlackOctaves))
                raise(n, top);
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const float base = max[n][c] == kNoScore ? 0.0f : max[n][c];
#pragma unroll
                for (int u = 0; u < kUnits; ++u) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float& x = s[u][n][i / 2][c + i % 2 * 2];
                        x = exp2_fast(x - base);
                        sum[n][c] += x;
                    }
                }
            }
        }
    }

    // Sums of values in units of another scale.
    __device__ __forceinline__ void change_unit(int32_t unit) {
        const float keep = exp2_fast(static_cast<float>(v_unit - unit) * 0.0625f);
        v_unit = unit;
#pragma unroll
        for (auto& rows : out)
#pragma unroll
            for (auto& tile : rows)
#pragma unroll
                for (float& x : tile) x *= keep;
    }

 private:
    __device__ __forceinline__ void raise(int n, float (&top)[2]) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
#pragma unroll
            for (int distance = 4; distance < 32; distance *= 2)
                top[c] = fmaxf(top[c], __shfl_xor_sync(0xffffffff, top[c], distance));
            const float largest = fmaxf(max[n][c], top[c]);
            const float keep = exp2_fast(max[n][c] - (largest == kNoScore ? 0.0f : largest));
            max[n][c] = largest;
            sum[n][c] *= keep;
#pragma unroll
            for (auto& tile : out[n]) {
                tile[c] *= keep;
                tile[c + 2] *= keep;
            }
        }
    }
};

}  // namespace quire::kernels::cuda
