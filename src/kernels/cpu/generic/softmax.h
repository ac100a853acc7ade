// Scores to probabilities, and the merge of weighted sums. Written once over an ISA vocabulary V;
// the order of operations is that of ref/attention.cc.
#pragma once

#include "kernels/attention_math.h"
#include "kernels/attention_plan.h"

namespace quire::kernels::generic {

inline constexpr float kMinusInf = -__builtin_inff();

template <class V>
typename V::f32 exp2_nonpositive(typename V::f32 x) {
    const typename V::f32 n = V::round(x), f = V::sub(x, n);
    typename V::f32 p = V::set1(kExp2C5);
    p = V::fma(p, f, V::set1(kExp2C4));
    p = V::fma(p, f, V::set1(kExp2C3));
    p = V::fma(p, f, V::set1(kExp2C2));
    p = V::fma(p, f, V::set1(kExp2C1));
    p = V::fma(p, f, V::set1(1.0f));
    return V::scale_by_exponent(p, n, x, kExp2Floor);
}

template <class V>
typename V::f32 tanh_via_exp2(typename V::f32 x) {
    const typename V::f32 t = exp2_nonpositive<V>(V::mul(V::abs(x), V::set1(kTanhScale)));
    const typename V::f32 one = V::set1(1.0f);
    return V::copysign(V::div(V::sub(one, t), V::add(one, t)), x);
}

// A row that has seen nothing yet has max == -inf; subtract 0 instead, exp2(-inf - 0) == 0.
template <class V>
float finite_max(float max) {
    return max == kMinusInf ? 0.0f : max;
}

// Keys of a tile that a row sees: [begin, end) within the tile, empty when end <= begin.
struct TileRange {
    int begin;
    int end;
    bool whole() const { return begin <= 0 && end >= kKeyTileTokens; }
};

// Turns a row's 64 scores into probabilities in place and updates its maximum and its sixteen sums.
// Returns in all lanes the factor by which the row's output so far must shrink.
template <class V>
typename V::f32 softmax_row(float* s, TileRange keys, float cap, float* max, float* sums) {
    using f32 = typename V::f32;
    constexpr int kVecs = kKeyTileTokens / V::kLanes;
    f32 x[kVecs];
    for (int i = 0; i < kVecs; ++i) x[i] = V::load(s + i * V::kLanes);
    if (cap > 0.0f)
        for (int i = 0; i < kVecs; ++i) x[i] = V::mul(tanh_via_exp2<V>(x[i]), V::set1(cap));
    if (!keys.whole())
        for (int i = 0; i < kVecs; ++i)
            x[i] = V::keep_range(x[i], i * V::kLanes, keys.begin, keys.end);
    f32 tile_max = V::max(V::max(x[0], x[1]), V::max(x[2], x[3]));
    for (int i = 4; i < kVecs; ++i) tile_max = V::max(tile_max, x[i]);
    const float lane_max = V::max_of_lanes(tile_max);
    const float new_max = lane_max > *max ? lane_max : *max;
    const f32 base = V::set1(finite_max<V>(new_max));
    const f32 correction = exp2_nonpositive<V>(V::sub(V::set1(*max), base));
    *max = new_max;
    for (int i = 0; i < kVecs; ++i) {
        x[i] = exp2_nonpositive<V>(V::sub(x[i], base));
        V::store(s + i * V::kLanes, x[i]);
    }
    constexpr int kGroupVecs = 16 / V::kLanes;  // vectors that hold the sixteen sums
    for (int i = 0; i < kGroupVecs; ++i) {
        f32 add = V::add(x[i], x[i + kGroupVecs]);
        add = V::add(add, x[i + 2 * kGroupVecs]);
        add = V::add(add, x[i + 3 * kGroupVecs]);
        float* sum = sums + i * V::kLanes;
        V::store(sum, V::fma(V::load(sum), correction, add));
    }
    return correction;
}

// Sixteen numbers to one: halves are added, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
template <class V>
float sum_of_sixteen(const float* lanes) {
    float t[kLaneSums];
    for (int i = 0; i < kLaneSums; ++i) t[i] = lanes[i];
    for (int half = kLaneSums / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) t[i] += t[i + half];
    return t[0];
}

// Adds one partition's (max, sum, out) to a row's total.
template <class V>
void merge_row(float part_max, float part_sum, const float* part_out, float* max, float* sum,
               float* out, int head_dim) {
    const float new_max = part_max > *max ? part_max : *max;
    const typename V::f32 base = V::set1(finite_max<V>(new_max));
    const typename V::f32 old_weight = exp2_nonpositive<V>(V::sub(V::set1(*max), base));
    const typename V::f32 new_weight = exp2_nonpositive<V>(V::sub(V::set1(part_max), base));
    float weights[2][V::kLanes];
    V::store(weights[0], old_weight);
    V::store(weights[1], new_weight);
    *sum = __builtin_fmaf(part_sum, weights[1][0], *sum * weights[0][0]);
    for (int d = 0; d < head_dim; d += V::kLanes)
        V::store(out + d,
                 V::fma(V::load(part_out + d), new_weight, V::mul(V::load(out + d), old_weight)));
    *max = new_max;
}

// Writes total / sum. Adding +0 turns -0 into +0 (see ref/attention.cc).
template <class V>
void finish_row(float sum, const float* total, float* out, int head_dim) {
    const typename V::f32 inverse = V::set1(1.0f / sum);
    for (int d = 0; d < head_dim; d += V::kLanes)
        V::store(out + d, V::fma(V::load(total + d), inverse, V::zero()));
}

}  // namespace quire::kernels::generic
