// The Hadamard transform of eight rows by a warp, to the oracle's bits.
//
// The oracle adds and subtracts at distance 1, 2, 4, ..., and every sum is rounded. The first four
// steps give 16 sums of 16 numbers, and those are also a matrix product with a matrix of ones and
// minus ones. The product has the same bits when nothing is rounded on either way: when all numbers
// are multiples of a q such that no sum is more than 2^24 q. A sum of 16 numbers with any signs is
// at most 4 |x|, the root of the row's sum of squares, which products give too; a number that is at
// least 2^7 q is a multiple of q when it has the 8 bits of a bf16. So the smallest magnitude of
// 16 x 8 numbers decides; where it is too small (or 0, whose sign would be lost), the steps are
// done as the oracle does them. Numbers with more bits, or that lost a mean, always take that way.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>

#include "codec/hot/scale.h"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/ptx/bulk.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {

__device__ __forceinline__ void add_and_subtract(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
}

// Distances 1 to 8: the quad's four threads have sixteen numbers.
__device__ __forceinline__ void sixteen_steps(float (&x)[4]) {
    const uint32_t t = lane_of_warp() % 4;
    add_and_subtract(x[0], x[1]);
    add_and_subtract(x[2], x[3]);
#pragma unroll
    for (uint32_t distance = 1; distance <= 2; distance *= 2) {
        const float sign = (t & distance) == 0 ? 1.0f : -1.0f;
#pragma unroll
        for (float& number : x)
            number = fmaf(number, sign, __shfl_xor_sync(kWholeWarp, number, distance));
    }
    add_and_subtract(x[0], x[2]);
    add_and_subtract(x[1], x[3]);
}

// Distances from 16 on, and the norm. Returns the largest magnitude of the thread's numbers, a NaN
// when one is; the last step has it cheaply, for the larger of |a + b| and |a - b| is |a| + |b|,
// rounding included.
template <int kHeadDim>
__device__ __forceinline__ float later_steps(QuadRow<kHeadDim>& row) {
    constexpr int kBlock = static_cast<int>(codec::hot::hadamard_block(kHeadDim));
    constexpr int kVectors = QuadRow<kHeadDim>::kVectors;
    float top = 0.0f;
    if constexpr (kBlock == 16) {
#pragma unroll
        for (const float(&x)[4] : row.x)
#pragma unroll
            for (const float number : x) top = max_or_nan(top, fabsf(number));
    }
#pragma unroll
    for (int h = 1; h < kBlock / 16; h *= 2) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if ((v & h) != 0) continue;
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                float &a = row.x[v][q], &b = row.x[v + h][q];
                if (h == kBlock / 32) top = max_or_nan(top, fabsf(a) + fabsf(b));
                add_and_subtract(a, b);
            }
        }
    }
    constexpr float kNorm = codec::hot::hadamard_norm(kBlock);
#pragma unroll
    for (float(&x)[4] : row.x)
#pragma unroll
        for (float& number : x) number *= kNorm;
    return top * kNorm;
}

// Two words a vector of a row: numbers 2t and 2t + 1, 2t + 8 and 2t + 9.
template <int kHeadDim>
struct RowWords {
    static constexpr int kVectors = kHeadDim / 16;
    uint32_t word[kVectors][2];

    __device__ __forceinline__ explicit RowWords(const std::byte* staging) {
        const uint32_t lane = lane_of_warp();
        const uint32_t from = shared_address(staging) +
                              lane % 8 * static_cast<uint32_t>(staged_row_bytes(2, kHeadDim)) +
                              lane / 8 * 16;
#pragma unroll
        for (int v = 0; v + 1 < kVectors; v += 2)
            load_matrices(from + static_cast<uint32_t>(v) * 32, word[v], word[v + 1]);
        if constexpr (kVectors % 2 == 1)
            load_matrices(from + (kVectors - 1) * 32, word[kVectors - 1]);
    }
};

// What a number of the quad's row must at least be.
template <int kHeadDim>
__device__ __forceinline__ float smallest_exact(const RowWords<kHeadDim>& words) {
    float squares[2][4] = {};  // of row g with row 2t and 2t + 1
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; ++v)
        mma_bf16(squares[v % 2], {words.word[v][0], 0u, words.word[v][1], 0u}, words.word[v]);
    const uint32_t g = lane_of_warp() / 4;
    const float mine = g % 2 == 0 ? squares[0][0] + squares[1][0] : squares[0][1] + squares[1][1];
    const float sum = __shfl_sync(kWholeWarp, mine, 4 * g + g / 2);
    // A power of two that is at least 4 |x|, whatever the product rounded.
    const float bound =
        __uint_as_float((__float_as_uint(4.04f * approximate_root(sum)) + 0x7fffff) & 0x7f800000);
    return sum > 1e-30f ? bound * 0x1p-17f : INFINITY;
}

// Bit v: of the numbers 16v to 16v + 15 of some row, the sums may have to be rounded.
template <int kHeadDim>
__device__ __forceinline__ uint32_t maybe_rounded(const RowWords<kHeadDim>& words) {
    const __nv_bfloat162 smallest = __float2bfloat162_rn(smallest_exact(words));
    uint32_t bits = 0;
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; ++v) {
        __nv_bfloat162 a, b;
        memcpy(&a, &words.word[v][0], 4);
        memcpy(&b, &words.word[v][1], 4);
        const bool exact = __hbge2(__hmin2(__habs2(a), __habs2(b)), smallest);
        bits |= __all_sync(kWholeWarp, exact) ? 0u : 1u << v;
    }
    return bits;
}

template <int kHeadDim>
__device__ __forceinline__ void first_steps_by_products(const std::byte* staging,
                                                        QuadRow<kHeadDim>* row) {
    const RowWords<kHeadDim> words(staging);
    const uint32_t rounded = maybe_rounded(words);
    const uint32_t g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    // Entry (k, n) is minus one when k & n has an odd number of bits. All four words of a thread
    // are alike but for the sign of the last one, where k and n are both 8 and more.
    const auto odd = static_cast<uint32_t>(__popc(2 * t & g)) & 1;
    const uint32_t ones = 0x3f803f80 ^ (odd << 15 | (odd ^ (g & 1)) << 31);
    const uint32_t signs[2][2] = {{ones, ones}, {ones, ones ^ 0x80008000}};
    // Two vectors at a time: rows 8 to 15 of the product are the second one's.
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; v += 2) {
        const bool two = v + 1 < kHeadDim / 16;
        const uint32_t a[4] = {words.word[v][0], two ? words.word[v + two][0] : 0u,
                               words.word[v][1], two ? words.word[v + two][1] : 0u};
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
            float sums[4];
            product_bf16(sums, a, signs[tile]);
            row->x[v][2 * tile] = sums[0];
            row->x[v][2 * tile + 1] = sums[1];
            if (!two) continue;
            row->x[v + two][2 * tile] = sums[2];
            row->x[v + two][2 * tile + 1] = sums[3];
        }
    }
    if (rounded == 0) return;
    const std::byte* at = staging + g * staged_row_bytes(2, kHeadDim) + 4 * t;
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; ++v) {
        if ((rounded >> v & 1) == 0) continue;
        const float2 low = widened<__nv_bfloat16>(*reinterpret_cast<const uint32_t*>(at + 32 * v));
        const float2 high =
            widened<__nv_bfloat16>(*reinterpret_cast<const uint32_t*>(at + 32 * v + 16));
        float x[4] = {low.x, low.y, high.x, high.y};
        sixteen_steps(x);
#pragma unroll
        for (int q = 0; q < 4; ++q) row->x[v][q] = x[q];
    }
}

// Eight rows from shared memory, less `mean`, transformed. Returns the largest magnitude of the
// thread's numbers, a NaN when one is.
template <RowKind kKind, int kHeadDim>
__device__ __forceinline__ float read_rotated(Numbers element, const float* mean,
                                              const std::byte* staging, QuadRow<kHeadDim>* row) {
    if constexpr (kKind == RowKind::plain_bf16) {
        first_steps_by_products(staging, row);
    } else {
        read_rows(element, mean, staging, row);
#pragma unroll
        for (float(&x)[4] : row->x) sixteen_steps(x);
    }
    return later_steps(*row);
}

}  // namespace quire::kernels::cuda
