// The scale of a row: that of codec/hot/scale.h's search, mostly without its sums.
//
// estimate_errors() gives the squared error of every scale of the window in a cheaper order, in
// units of the anchor's scale, and how far it may be from the oracle's sum. Scales whose error is
// above the least one by more than twice that cannot win. When one is left, that is it; when rows
// have more left, exact_error() repeats the oracle's arithmetic for those.
//
// Integers: e = z - round(z), by a fused multiplication that also clamps. Its rounding moves z by
// less than eta = 2^(bits - 1) * 2^-20 steps, an error e by as much, and its square by less than
// eta (1 + e^2).
//
// Lloyd levels of 3 and 4 bits: let t be the only threshold that number z crosses in the window,
// h half the distance of the levels beside it, r = 1 + d the scale over the anchor's. Then
// e = h r - |z - t r|, so with y = z - t the sum of squares is
//
//   sum y^2 - 2 d sum y t + d^2 sum t^2 + r^2 sum h^2 - 2 r sum |h y - d h t|
//
// of which only the last sum depends on the scale: two instructions a number. The parts are at most
// 4 sum y^2 + 4 d^2 sum t^2 + 2 r^2 sum h^2 in size together; a number of them is rounded 45 times
// at most on its way, by 2^-24 of its size. That z is wrong by 2^-22 z changes a square by less
// than 2^-22 (5 e^2 + 0.2 z^2). 3e-6 of (4 sum y^2 + (4 d^2 + 0.05) sum t^2 + 3 sum h^2 + the
// error) covers both, and the roundings of the oracle itself.
//
// 2 bits have one threshold, so that t and h are constants, and the sum needs no y:
//
//   sum z^2 - 2 r t sum z + n r^2 (t^2 + h^2) - 2 r h sum |z - r t|
//
// Here sum z^2 is n at most, for the anchor is the root mean square; numbers are rounded 15 times
// at most, which makes 6e-6 n of all parts. 5 bits have too many thresholds, and look one up for
// each scale.
#pragma once

#include <cstdint>

#include "codec/hot/scale.h"
#include "kernels/cuda/codec/cells.cuh"
#include "kernels/cuda/codec/quad_row.cuh"

namespace quire::kernels::cuda {

// 2^(k / 16) for scales k steps from the anchor's. REQUIRES: -16 < k < 16.
constexpr float step_ratio(int k) {
    return k >= 0 ? codec::hot::kSixteenth[k] : 0.5f * codec::hot::kSixteenth[16 + k];
}
constexpr float inverse_step_ratio(int k) {
    return step_ratio(-k);
}

template <int kBits>
inline constexpr int kScales =
    codec::hot::search_of(kBits).highest - codec::hot::search_of(kBits).lowest + 1;

// Entry i is of the scale search_of().highest - i steps from the anchor's.
template <int kBits>
struct Errors {
    float error[kScales<kBits>];
    float margin;
};

// 5 bits reach 3.26 * 2^(2/16), 4 bits 2.74 * 2^(5/16), 3 bits 2.16 * 2^(10/16).
inline constexpr float kOneScaleCellsPerUnit = 8.0f;
inline constexpr float kOneScaleReach = 3.9f;
template <int kBits>
inline constexpr float kWindowCellsPerUnit = kBits == 4 ? 8.81f : 1.0f / 0.24f;
template <int kBits>
inline constexpr int kWindowHighest = codec::hot::search_of(kBits).highest;
// The lowest scale of 4 bits has cells of its own: with it some numbers would cross two thresholds.
template <int kBits>
inline constexpr int kWindowLowest = kBits == 4 ? -4 : codec::hot::search_of(kBits).lowest;

template <int kBits>
static __device__ constexpr MagnitudeCells kOneScaleCells =
    magnitude_cells<kBits>(kOneScaleCellsPerUnit, 1.0, 1.0);
template <int kBits>
static __device__ constexpr MagnitudeCells kWindowCells =
    magnitude_cells<kBits>(kWindowCellsPerUnit<kBits>, double{step_ratio(kWindowLowest<kBits>)},
                           double{step_ratio(kWindowHighest<kBits>)});
// Cells of the same numbers for the lowest scale alone.
template <int kBits>
static __device__ constexpr MagnitudeCells kLastCells = magnitude_cells<kBits>(
    kWindowCellsPerUnit<kBits>, double{step_ratio(codec::hot::search_of(kBits).lowest)},
    double{step_ratio(codec::hot::search_of(kBits).lowest)});

template <int kBits, int kHeadDim>
__device__ __forceinline__ void estimate_integers(const StoredRow<kHeadDim>& row, float inverse,
                                                  Errors<kBits>* out) {
    constexpr float kHalf = codec::hot::magnitudes(kBits);
    constexpr float kRange = 2 * kHalf - 1;
    constexpr float kEta = kHalf * 0x1p-20f;
    float by[kScales<kBits>], sum[kScales<kBits>] = {};
#pragma unroll
    for (int i = 0; i < kScales<kBits>; ++i)
        by[i] = inverse * inverse_step_ratio(codec::hot::search_of(kBits).highest - i);
    row.template for_each<kBits == 6 ? 2 : 4>([&](float x, int) {
#pragma unroll
        for (int i = 0; i < kScales<kBits>; ++i) {
            float level;
            if (codec::hot::search_of(kBits).highest == i) {
                // The anchor's. Only a half is out of reach, and is as far from either level.
                level = fmaf(x, by[i], kRounder) - kRounder;
            } else {
                const float share = __saturatef(fmaf(x, by[i] * (1.0f / kRange), kHalf / kRange));
                level = fmaf(share, kRange, kRounder) - (kRounder + kHalf);
            }
            const float e = fmaf(x, by[i], -level);
            sum[i] = fmaf(e, e, sum[i]);
        }
    });
    out->margin = 0;
#pragma unroll
    for (int i = 0; i < kScales<kBits>; ++i) {
        const float r = step_ratio(codec::hot::search_of(kBits).highest - i);
        sum[i] = quad_sum(sum[i]);
        out->error[i] = sum[i] * (r * r);
        out->margin = fmaxf(out->margin, 1.02f * kEta * (r * r) * (kHeadDim + sum[i]));
    }
}

// Of one scale, in its own units.
template <int kBits, int kHeadDim>
__device__ __forceinline__ float estimate_alone(const StoredRow<kHeadDim>& row, float inverse) {
    static_assert(kOneScaleCells<kBits>.good);
    const float threshold = kOneScaleCells<kBits>.threshold[lane_of_warp()];
    const float half_step = kOneScaleCells<kBits>.half_step[lane_of_warp()];
    const float index_by = inverse * kOneScaleCellsPerUnit;
    float sum = 0;
    row.template for_each<2>([&](float x, int) {
        const int cell = __float_as_int(fmaf(fabsf(x), index_by, kRounder));
        const float t = __shfl_sync(kWholeWarp, threshold, cell);
        const float h = __shfl_sync(kWholeWarp, half_step, cell);
        const float e = h - fabsf(fmaf(fabsf(x), inverse, -t));
        sum = fmaf(e, e, sum);
    });
    return quad_sum(sum);
}

template <int kBits, int kHeadDim>
__device__ __forceinline__ void estimate_window(const StoredRow<kHeadDim>& row, float inverse,
                                                Errors<kBits>* out) {
    static_assert(kWindowCells<kBits>.good && kLastCells<kBits>.good);
    constexpr int kCount = kWindowHighest<kBits> - kWindowLowest<kBits> + 1;
    constexpr bool kOneMore = kCount < kScales<kBits>;
    constexpr float kLast = step_ratio(codec::hot::search_of(kBits).lowest);
    const float threshold = kWindowCells<kBits>.threshold[lane_of_warp()];
    const float half_step = kWindowCells<kBits>.half_step[lane_of_warp()];
    const float last_threshold = kLast * kLastCells<kBits>.threshold[lane_of_warp()];
    const float last_half_step = kLast * kLastCells<kBits>.half_step[lane_of_warp()];
    const float index_by = inverse * kWindowCellsPerUnit<kBits>;
    float yy = 0, yt = 0, tt = 0, hh = 0, bends[kCount] = {}, last = 0;
    row.template for_each<2>([&](float x, int) {
        const int cell = __float_as_int(fmaf(fabsf(x), index_by, kRounder));
        const float t = __shfl_sync(kWholeWarp, threshold, cell);
        const float h = __shfl_sync(kWholeWarp, half_step, cell);
        const float y = fmaf(fabsf(x), inverse, -t);
        yy = fmaf(y, y, yy);
        yt = fmaf(y, t, yt);
        tt = fmaf(t, t, tt);
        hh = fmaf(h, h, hh);
        const float hy = h * y, ht = h * t;
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            bends[i] += fabsf(fmaf(ht, 1.0f - step_ratio(kWindowHighest<kBits> - i), hy));
        if constexpr (kOneMore) {
            const float its_t = __shfl_sync(kWholeWarp, last_threshold, cell);
            const float its_h = __shfl_sync(kWholeWarp, last_half_step, cell);
            const float e = its_h - fabsf(fmaf(fabsf(x), inverse, -its_t));
            last = fmaf(e, e, last);
        }
    });
    yy = quad_sum(yy), yt = quad_sum(yt), tt = quad_sum(tt), hh = quad_sum(hh);
    constexpr float kFarthest = 1.0f - step_ratio(kWindowLowest<kBits>);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const float r = step_ratio(kWindowHighest<kBits> - i), d = r - 1.0f;
        out->error[i] = yy - 2 * d * yt + d * d * tt + r * (r * hh - 2 * quad_sum(bends[i]));
    }
    if constexpr (kOneMore) out->error[kCount] = quad_sum(last);
    // Of the least error; what a larger one adds to its margin is less than what it is larger by.
    float least = out->error[0];
#pragma unroll
    for (int i = 1; i < kScales<kBits>; ++i) least = fminf(least, out->error[i]);
    out->margin = 3e-6f * (4 * yy + (4 * kFarthest * kFarthest + 0.05f) * tt + 3 * hh + least);
}

// `squares`: the sum of squares of x.
template <int kHeadDim>
__device__ __forceinline__ void estimate_two_bits(const StoredRow<kHeadDim>& row, float inverse,
                                                  float squares, Errors<2>* out) {
    constexpr float t = codec::hot::kThresholds2[0];
    constexpr float h = 0.5f * (codec::hot::kLevels2[1] - codec::hot::kLevels2[0]);
    float z_sum = 0, bends[kScales<2>] = {};
    // By fours, for short chains of additions.
    row.template for_each_four<2>([&](int, const float(&x)[4]) {
        float z[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) z[q] = fabsf(x[q]) * inverse;
        z_sum += (z[0] + z[1]) + (z[2] + z[3]);
#pragma unroll
        for (int i = 0; i < kScales<2>; ++i) {
            const float bend = t * step_ratio(codec::hot::search_of(2).highest - i);
            bends[i] += (fabsf(z[0] - bend) + fabsf(z[1] - bend)) +
                        (fabsf(z[2] - bend) + fabsf(z[3] - bend));
        }
    });
    z_sum = quad_sum(z_sum);
    const float zz = squares * inverse * inverse;
    out->margin = 1.3e-6f * (2 * zz + 3.0f * kHeadDim);
#pragma unroll
    for (int i = 0; i < kScales<2>; ++i) {
        const float r = step_ratio(codec::hot::search_of(2).highest - i);
        out->error[i] = zz - 2 * r * t * z_sum + r * r * (kHeadDim * (t * t + h * h)) -
                        2 * r * h * quad_sum(bends[i]);
    }
}

template <int kBits, int kHeadDim>
__device__ __forceinline__ void estimate_errors(const StoredRow<kHeadDim>& row, float inverse,
                                                float squares, Errors<kBits>* out) {
    if constexpr (!codec::hot::is_lloyd(kBits)) {
        estimate_integers<kBits>(row, inverse, out);
    } else if constexpr (kBits == 2) {
        estimate_two_bits(row, inverse, squares, out);
    } else if constexpr (kBits == 5) {
        float most = 0;
#pragma unroll
        for (int i = 0; i < kScales<5>; ++i) {
            const int k = codec::hot::search_of(5).highest - i;
            out->error[i] = step_ratio(k) * step_ratio(k) *
                            estimate_alone<5>(row, inverse * inverse_step_ratio(k));
            most = fmaxf(most, out->error[i]);
        }
        out->margin = 4e-6f * (6 * most + 0.06f * kHeadDim);
    } else {
        estimate_window<kBits>(row, inverse, out);
    }
}

// What exact arithmetic looks up.
template <int kBits, bool kLloyd = codec::hot::is_lloyd(kBits)>
struct ExactLevels {
    static constexpr float kHalf = codec::hot::magnitudes(kBits);
    __device__ __forceinline__ float error(float x, float inverse, float scale) const {
        return fmaf(-rintf(fminf(fmaxf(x * inverse, -kHalf), kHalf - 1)), scale, x);
    }
};
template <int kBits>
struct ExactLevels<kBits, true> {
    float threshold = kOneScaleCells<kBits>.threshold[lane_of_warp()];
    int32_t index = kOneScaleCells<kBits>.index[lane_of_warp()];
    float level = codec::hot::lloyd_levels(kBits)[lane_of_warp() % codec::hot::magnitudes(kBits)];

    // How many thresholds are at most the magnitude.
    __device__ __forceinline__ int index_of(float magnitude) const {
        const float near = fminf(magnitude, kOneScaleReach);
        const int cell = __float_as_int(fmaf(near, kOneScaleCellsPerUnit, kRounder));
        const float t = __shfl_sync(kWholeWarp, threshold, cell);
        return __shfl_sync(kWholeWarp, index, cell) + (near >= t ? 1 : 0);
    }
    __device__ __forceinline__ float error(float x, float inverse, float scale) const {
        const int i = index_of(fabsf(x * inverse));
        return fmaf(-__shfl_sync(kWholeWarp, level, i), scale, fabsf(x));
    }
};

// The oracle's sum. u may differ from row to row.
template <int kBits, int kHeadDim>
__device__ __forceinline__ float exact_error(const StoredRow<kHeadDim>& row,
                                             const ScaleTables& tables, int u) {
    const ExactLevels<kBits> levels;
    const float inverse = tables.inverse_scale<kBits>(u);
    const float scale = tables.scale<kBits>(u);
    float sums[4] = {};
    row.template for_each<2>([&](float x, int q) {
        const float e = levels.error(x, inverse, scale);
        sums[q] = fmaf(e, e, sums[q]);
    });
    return fold_sums(sums);
}

// `open`: bit i, entry i of Errors may be the least; rows with less than two have settled it.
template <int kBits, int kHeadDim>
__device__ __forceinline__ int best_by_exact_errors(const StoredRow<kHeadDim>& row,
                                                    const ScaleTables& tables, int anchor,
                                                    uint32_t open) {
    int best = 0;
    float least = INFINITY;
#pragma unroll 1
    for (int i = 0; i < kScales<kBits>; ++i) {
        const bool mine = (open >> i & 1) != 0;
        if (!__any_sync(kWholeWarp, mine)) continue;
        const int k = codec::hot::search_of(kBits).highest - i;
        const auto u = static_cast<int>(codec::hot::clamp_scale(anchor + k));
        const float error = exact_error<kBits>(row, tables, u);
        if (!mine || (best != 0 && !(error < least))) continue;
        best = u;
        least = error;
    }
    return best;
}

// The scale's byte for the row of the quad. `largest`: its largest magnitude; `settled`: nobody
// asks for this row.
template <int kBits, int kHeadDim>
__device__ __forceinline__ int best_scale(const StoredRow<kHeadDim>& row, const ScaleTables& tables,
                                          float largest, bool settled) {
    namespace hot = codec::hot;
    constexpr hot::Search kSearch = hot::search_of(kBits);
    float amplitude = largest * (1.0f / hot::reach(kBits)), squares = 0;
    if constexpr (kBits == 2) {
        float sums[4] = {};
        row.template for_each<2>([&](float x, int q) { sums[q] = fmaf(x, x, sums[q]); });
        squares = fold_sums(sums);
        amplitude = largest < hot::kHuge
                        ? __fsqrt_rn(__fdiv_rn(squares, static_cast<float>(kHeadDim)))
                        : largest;
    }
    const int anchor = tables.scale_at_least<kBits>(amplitude);
    Errors<kBits> errors;
    estimate_errors<kBits>(row, tables.inverse_scale<kBits>(anchor), squares, &errors);
    float least = errors.error[0];
#pragma unroll
    for (int i = 1; i < kScales<kBits>; ++i) least = fminf(least, errors.error[i]);
    const float limit = least + 2 * errors.margin;
    uint32_t open = 0;
#pragma unroll
    for (int i = 0; i < kScales<kBits>; ++i) open |= errors.error[i] <= limit ? 1u << i : 0u;
    // Where scales are clamped, and where estimates are not numbers, nothing is known.
    if (!(anchor + kSearch.lowest >= 1 && anchor + kSearch.highest <= 255) || open == 0)
        open = (1u << kScales<kBits>)-1;
    int u = anchor + kSearch.highest - (__ffs(static_cast<int>(open)) - 1);
    const bool unclear = !settled && (open & (open - 1)) != 0;
    if (__any_sync(kWholeWarp, unclear)) {
        const int exact = best_by_exact_errors<kBits>(row, tables, anchor, unclear ? open : 0u);
        if (unclear) u = exact;
    }
    return u;
}

}  // namespace quire::kernels::cuda
