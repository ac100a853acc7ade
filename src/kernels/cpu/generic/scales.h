// Scales of a tile of codes, and where they meet scores and probabilities. Written over an ISA
// vocabulary V; the order of operations is that of ref/attention.cc.
#pragma once

#include "kernels/cpu/generic/softmax.h"

namespace quire::kernels::generic {

// Of each key. Integers are stored too large by an offset, which is taken off after the sums:
// sum of x * (code - offset) = sum of x * code - offset * sum of x.
struct TileScales {
    alignas(64) float k_scale[kKeyTileTokens];
    alignas(64) float k_minus_offset[kKeyTileTokens];
    alignas(64) float v_scale[kKeyTileTokens];
    alignas(64) float v_offset[kKeyTileTokens];
    bool has_excess;      // some v_offset is not 0
    int first_coded = 0;  // key of the tile; those before it are exact; a multiple of 16
};

template <class V, int R>
void scale_scores(const TileScales& scales, const float* q_sum, float* s) {
    using f32 = typename V::f32;
    for (int i = 0; i < kKeyTileTokens; i += V::kLanes) {
        const f32 scale = V::load(scales.k_scale + i), minus = V::load(scales.k_minus_offset + i);
        for (int r = 0; r < R; ++r) {
            float* at = s + r * kKeyTileTokens + i;
            V::store(at, V::mul(V::fma(minus, V::set1(q_sum[r]), V::load(at)), scale));
        }
    }
}

// Multiplies a row's probabilities by the scales of V; returns what its output will be too large
// by.
template <class V>
float scale_probabilities(const TileScales& scales, float* p) {
    using f32 = typename V::f32;
    for (int i = 0; i < kKeyTileTokens; i += V::kLanes)
        V::store(p + i, V::mul(V::load(p + i), V::load(scales.v_scale + i)));
    if (!scales.has_excess) return 0.0f;
    alignas(64) float lanes[16];
    for (int i = 0; i < 16; i += V::kLanes) {
        const auto excess = [&](int j) {
            return V::mul(V::load(p + i + 16 * j), V::load(scales.v_offset + i + 16 * j));
        };
        const f32 sum = V::add(V::add(V::add(excess(0), excess(1)), excess(2)), excess(3));
        V::store(lanes + i, sum);
    }
    return V::sum_of_sixteen(lanes);
}

template <class V, int R>
void take_off(const float* excess, float* out, int64_t head_dim) {
    for (int r = 0; r < R; ++r) {
        float* at = out + r * head_dim;
        for (int64_t d = 0; d < head_dim; d += V::kLanes)
            V::store(at + d, V::sub(V::load(at + d), V::set1(excess[r])));
    }
}

}  // namespace quire::kernels::generic
