// From a rotated row and its scale to codes, by the oracle's arithmetic.
#pragma once

#include <cstdint>

#include "codec/hot/scale.h"
#include "kernels/cuda/codec/cells.cuh"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/scale_search.cuh"

namespace quire::kernels::cuda {

// 3 and 4 bits: the outermost numbers are at 3.4 of their scales.
inline constexpr float kSignedCellsPerUnit = 4.48f;
template <int kBits>
static __device__ constexpr SignedCells kSignedCells = signed_cells<kBits>(kSignedCellsPerUnit);

// Numbers that no level reaches, to where the outermost level does: the codes are the same.
template <int kBits, int kHeadDim>
__device__ __forceinline__ void pull_in(QuadRow<kHeadDim>& row, float largest, float inverse,
                                        float scale) {
    constexpr float kHalf = codec::hot::magnitudes(kBits);
    constexpr bool kIsLloyd = codec::hot::is_lloyd(kBits);
    constexpr float kLow = kIsLloyd ? -3.44f : -kHalf, kHigh = kIsLloyd ? 3.44f : kHalf - 1;
    if constexpr (kBits == 2 || kBits == 5) return;
    if (!__any_sync(kWholeWarp, largest * inverse > kHigh)) return;
    const float low = kLow * scale, high = kHigh * scale;
#pragma unroll
    for (int v = 0; v < QuadRow<kHeadDim>::kVectors; ++v)
#pragma unroll
        for (float& x : row.x[v]) x = fminf(fmaxf(x, low), high);
}

// 0 with the sign bit clear, -1 with it set: so minus zero is below zero.
__device__ __forceinline__ int32_t sign_of(float x) {
    return __float_as_int(x) >> 31;
}

// put(v, half, a, b) gets the codes of x[v][2 * half] and of the one after it, in the lowest byte.
template <int kBits, int kHeadDim, class Put>
__device__ __forceinline__ void make_codes(QuadRow<kHeadDim>& row, float largest, float inverse,
                                           float scale, Put put) {
    constexpr int kHalf = codec::hot::magnitudes(kBits);
    pull_in<kBits>(row, largest, inverse, scale);
    const auto for_each = [&](auto code_of) {
#pragma unroll
        for (int v = 0; v < QuadRow<kHeadDim>::kVectors; ++v)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                put(v, half, code_of(row.x[v][2 * half] * inverse),
                    code_of(row.x[v][2 * half + 1] * inverse));
    };
    if constexpr (!codec::hot::is_lloyd(kBits)) {
        // The code is in the lowest bits; kHalf is even, so that halves go where they should.
        for_each([](float z) { return __float_as_int(z + (kRounder + kHalf)); });
    } else if constexpr (kBits == 2) {
        constexpr float t = codec::hot::kThresholds2[0];
        for_each([](float z) { return (3 + sign_of(fabsf(z) - t)) ^ (sign_of(z) & 3); });
    } else if constexpr (kBits == 5) {
        const ExactLevels<5> levels;
        for_each([&](float z) {
            return (kHalf + levels.index_of(fabsf(z))) ^ (sign_of(z) & (2 * kHalf - 1));
        });
    } else {
        static_assert(kSignedCells<kBits>.good);
        const float threshold = kSignedCells<kBits>.threshold[lane_of_warp()];
        const int32_t code = kSignedCells<kBits>.code[lane_of_warp()];
        for_each([&](float z) {
            const int cell = __float_as_int(fmaf(z, kSignedCellsPerUnit, kRounder));
            const float t = __shfl_sync(kWholeWarp, threshold, cell);
            return __shfl_sync(kWholeWarp, code, cell) + sign_of(z - t);
        });
    }
}

}  // namespace quire::kernels::cuda
