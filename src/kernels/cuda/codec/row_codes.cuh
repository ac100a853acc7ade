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

// Beyond it numbers over their scale are drawn in, to where they have the same codes.
template <int kBits>
inline constexpr float kCodesReach =
    codec::hot::is_lloyd(kBits) ? 3.44f : static_cast<float>(codec::hot::magnitudes(kBits) - 1);
template <int kBits>
__device__ __forceinline__ float drawn_in(float z) {
    constexpr float kReach = kCodesReach<kBits>;
    return fminf(fmaxf(z, codec::hot::is_lloyd(kBits) ? -kReach : -kReach - 1), kReach);
}

// 0 with the sign bit clear, -1 with it set: so minus zero is below zero.
__device__ __forceinline__ int32_t sign_of(float x) {
    return __float_as_int(x) >> 31;
}

// code_of(z) gives the code of a number over its scale, in the lowest byte.
template <int kBits>
struct CodeOf {
    __device__ __forceinline__ int32_t operator()(float z) const {  // 6, 7, 8 bits
        // kHalf is even, so that halves go where they should.
        constexpr float kHalf = codec::hot::magnitudes(kBits);
        return __float_as_int(z + (kRounder + kHalf));
    }
};
template <>
struct CodeOf<2> {
    __device__ __forceinline__ int32_t operator()(float z) const {
        return (3 + sign_of(fabsf(z) - codec::hot::kThresholds2[0])) ^ (sign_of(z) & 3);
    }
};
template <>
struct CodeOf<5> {
    ExactLevels<5> levels;
    __device__ __forceinline__ int32_t operator()(float z) const {
        return (16 + levels.index_of(fabsf(z))) ^ (sign_of(z) & 31);
    }
};
template <int kBits>
struct SignedCode {
    static_assert(kSignedCells<kBits>.good);
    float threshold = kSignedCells<kBits>.threshold[lane_of_warp()];
    int32_t code = kSignedCells<kBits>.code[lane_of_warp()];
    __device__ __forceinline__ int32_t operator()(float z) const {
        const int cell = __float_as_int(fmaf(z, kSignedCellsPerUnit, kRounder));
        const float t = __shfl_sync(kWholeWarp, threshold, cell);
        return __shfl_sync(kWholeWarp, code, cell) + sign_of(z - t);
    }
};
template <>
struct CodeOf<3> : SignedCode<3> {};
template <>
struct CodeOf<4> : SignedCode<4> {};

// put(v, half, a, b) gets the codes of x[v][2 * half] and of the one after it, in the lowest byte.
// `largest`: the row's largest magnitude.
template <int kBits, int kHeadDim, class Put>
__device__ __forceinline__ void make_codes(const StoredRow<kHeadDim>& row, float largest,
                                           float inverse, Put put) {
    const CodeOf<kBits> code_of;
    const auto by_fours = [&](auto near) {
        row.template for_each_four<4>([&](int v, const float(&x)[4]) {
#pragma unroll
            for (int half = 0; half < 2; ++half)
                put(v, half, code_of(near(x[2 * half] * inverse)),
                    code_of(near(x[2 * half + 1] * inverse)));
        });
    };
    constexpr bool kNeedsReach = kBits != 2 && kBits != 5;
    if (kNeedsReach && __any_sync(kWholeWarp, largest * inverse > kCodesReach<kBits>))
        by_fours([](float z) { return drawn_in<kBits>(z); });
    else
        by_fours([](float z) { return z; });
}

}  // namespace quire::kernels::cuda
