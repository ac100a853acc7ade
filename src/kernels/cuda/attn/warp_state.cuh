// One warp's part of a decode: 32 tokens at a time, for up to 8 query rows of one KV head.
//
// Lane 4g + t holds scores of tokens first_token(g) to + 3 for query rows 2t and 2t + 1, and sums
// for those rows and the dimensions of WarpMap's value tiles.
#pragma once

#include "kernels/attention_math.h"
#include "kernels/cuda/attn/levels.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace quire::kernels::cuda {

inline constexpr float kNoScore = -INFINITY;

// Where a chunk's codes are, for one lane.
struct ChunkPages {
    const std::byte* key_page = nullptr;    // of the lane's group of keys (g / 4)
    uint32_t key_group = 0;                 // in that page
    const std::byte* value_page = nullptr;  // of the lane's group of values (t / 2)
    uint32_t value_group = 0;
};

__device__ __forceinline__ uint32_t load_word(const std::byte* p) {
    return __ldcs(reinterpret_cast<const unsigned int*>(p));  // read once
}

// The same shape, which the compiler cannot see to be: what follows from it is computed where it is
// used, and does not live in registers, for every width, through the loop around it.
__device__ __forceinline__ codec::hot::Shape opaque(codec::hot::Shape shape) {
    asm volatile("" : "+r"(shape.tokens));
    return shape;
}

template <int kHeadDim>
struct WarpState {
    static constexpr int kSteps = kHeadDim / 16;
    // More loads in flight than these would not leave registers for the sums.
    static constexpr int kUnrolledSteps = kHeadDim <= 128 ? kSteps : 4;
    static constexpr int kPairs = (kHeadDim + 63) / 64;  // of blocks of 32 dimensions

    const uint2* q;  // [kSteps][32 lanes] in shared memory: rotated, scaled, f16
    float out[4 * kPairs][4];
    float max[2], sum[2];  // of rows 2t and 2t + 1; sum: of this lane's tokens
    int32_t v_unit;        // sums are in units of the scale with this number
    uint32_t g, t;

    __device__ __forceinline__ void clear() {
        for (auto& tile : out) tile[0] = tile[1] = tile[2] = tile[3] = 0;
        max[0] = max[1] = kNoScore;
        sum[0] = sum[1] = 0;
        v_unit = -1;
    }

    template <int kBits>
    __device__ __forceinline__ void add_scores(const codec::hot::Shape& of_pages,
                                               const ChunkPages& pages, const uint32_t* table,
                                               float (&s)[2][4]) const {
        const codec::hot::Shape shape = opaque(of_pages);
        const std::byte* side = pages.key_page + codec::hot::k_offset(shape);
        const auto load = [side](uint32_t at, uint32_t constant) {
            return load_word(side + at + constant);
        };
#pragma unroll kUnrolledSteps
        for (int step = 0; step < kSteps; ++step) {
            const auto codes = [&](bool far) {
                return load_codes<kBits>(
                    shape, WarpMap::key_row(kHeadDim, pages.key_group, step, t, far), g % 4, load);
            };
            const CodePair near = codes(false), far = codes(true);
            uint32_t a[4], b[4];
            to_levels<kBits>(near.low, near.high, table, a);
            to_levels<kBits>(far.low, far.high, table, b);
            const uint2 x = q[32 * step];
            mma_f16(s[0], {a[0], a[1], b[0], b[1]}, {x.x, x.y});
            mma_f16(s[1], {a[2], a[3], b[2], b[3]}, {x.x, x.y});
        }
    }

    // p: weights of the scores' tiles as the second operand, f16.
    template <int kBits>
    __device__ __forceinline__ void add_values(const codec::hot::Shape& of_pages,
                                               const ChunkPages& pages, const uint32_t* table,
                                               const uint32_t (&p)[2][2]) {
        const codec::hot::Shape shape = opaque(of_pages);
        const std::byte* side = pages.value_page + codec::hot::v_offset(shape);
        const auto load = [side](uint32_t at, uint32_t constant) {
            return load_word(side + at + constant);
        };
        const uint32_t first = pages.value_group * 16 + t % 2 * 8;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            if (kHeadDim > 128) asm volatile("" ::: "memory");  // loads of one pair at a time
#pragma unroll
            for (uint32_t tile = 0; tile < 2; ++tile) {
                CodePair codes[4];
#pragma unroll
                for (uint32_t k = 0; k < 4; ++k)
                    codes[k] = load_codes<kBits>(
                        shape, WarpMap::value_row(kHeadDim, first, tile, k, g, i), g % 4, load);
                uint32_t low[2][4], high[2][4];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const CodePair &first = codes[2 * half], &second = codes[2 * half + 1];
                    to_levels<kBits>(first.low, second.low, table, low[half]);
                    to_levels<kBits>(first.high, second.high, table, high[half]);
                }
#pragma unroll
                for (int b = 0; b < 4; ++b)
                    mma_f16(out[4 * i + b], {low[0][b], high[0][b], low[1][b], high[1][b]},
                            p[tile]);
            }
        }
    }

    // Weights of the chunk's scores, in units of the largest so far; earlier sums follow.
    __device__ __forceinline__ void weigh(float (&s)[2][4]) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
            float top =
                fmaxf(fmaxf(s[0][column], s[0][column + 2]), fmaxf(s[1][column], s[1][column + 2]));
#pragma unroll
            for (int distance = 4; distance < 32; distance *= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, distance));
            const float largest = fmaxf(max[column], top);
            const float base = largest == kNoScore ? 0.0f : largest;
            const float keep = exp2f(max[column] - base);
            max[column] = largest;
            float own = 0;
#pragma unroll
            for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    float& x = s[tile][column + 2 * row];
                    x = exp2f(x - base);
                    own += x;
                }
            }
            sum[column] = sum[column] * keep + own;
#pragma unroll
            for (auto& tile : out) {
                tile[column] *= keep;
                tile[column + 2] *= keep;
            }
        }
    }
};

}  // namespace quire::kernels::cuda
