// Scores to probabilities, and the merge of weighted sums. Written once over an ISA vocabulary V;
// the order of operations is that of ref/attention.cc.
#pragma once

#include "kernels/attention_math.h"
#include "kernels/attention_plan.h"

namespace quire::kernels::generic {

inline constexpr float kMinusInf = -__builtin_inff();
inline constexpr float kLargest = 0x1.fffffep127f;

// A NaN whose low nine bits are zero, as those of 16-bit pages are, stays one. A query's NaN may
// not, but it makes all scores of its row NaN, so that the row's maximum stays -inf and its result
// is 0 / 0.
template <class V>
typename V::f32 exp2_nonpositive(typename V::f32 x) {
    // Adding 1.5 * 2^23 rounds to an integer, to even, and leaves it in the low bits of the sum.
    const typename V::f32 shift = V::set1(0x1.8p23f), shifted = V::add(x, shift);
    const typename V::f32 f = V::sub(x, V::sub(shifted, shift));
    typename V::f32 p = V::set1(kExp2C5);
    p = V::fma(p, f, V::set1(kExp2C4));
    p = V::fma(p, f, V::set1(kExp2C3));
    p = V::fma(p, f, V::set1(kExp2C2));
    p = V::fma(p, f, V::set1(kExp2C1));
    p = V::fma(p, f, V::set1(1.0f));
    return V::keep_not_below(V::add_exponent(p, shifted), x, kExp2Floor);
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
};

// Turns a row's 64 scores into probabilities in place and updates its maximum and its sixteen sums.
// Returns in all lanes the factor by which the row's output so far must shrink.
template <class V>
typename V::f32 softmax_row(float* s, TileRange keys, float cap, float* max, float* sums) {
    using f32 = typename V::f32;
    constexpr int kVecs = kKeyTileTokens / V::kLanes;
    if (cap > 0.0f)
        for (int i = 0; i < kKeyTileTokens; i += V::kLanes)
            V::store(s + i, V::mul(tanh_via_exp2<V>(V::load(s + i)), V::set1(cap)));
    if (keys.begin > 0 || keys.end < kKeyTileTokens)
        for (int i = 0; i < kKeyTileTokens; i += V::kLanes)
            V::store(s + i, V::keep_range(V::load(s + i), i, keys.begin, keys.end));
    f32 tile_max = V::load(s);
    for (int i = 1; i < kVecs; ++i) tile_max = V::max(tile_max, V::load(s + i * V::kLanes));
    const float lane_max = V::max_of_lanes(tile_max);
    f32 correction = V::set1(1.0f);  // as exp2(0) is 1 exactly
    const float old_max = *max;
    if (lane_max > old_max) {
        *max = lane_max;
        correction = exp2_nonpositive<V>(V::set1(old_max - lane_max));
    }
    const f32 base = V::set1(finite_max<V>(*max));
    constexpr int kGroupVecs = 16 / V::kLanes;  // vectors that hold the sixteen sums
    for (int i = 0; i < kGroupVecs; ++i) {
        f32 p[4];
        for (int j = 0; j < 4; ++j) {
            float* at = s + (j * kGroupVecs + i) * V::kLanes;
            p[j] = exp2_nonpositive<V>(V::sub(V::load(at), base));
            V::store(at, p[j]);
        }
        const f32 add = V::add(V::add(V::add(p[0], p[1]), p[2]), p[3]);
        float* sum = sums + i * V::kLanes;
        V::store(sum, V::fma(V::load(sum), correction, add));
    }
    return correction;
}

// Adds one partition's weighted sums to the totals, kLanes rows at a time; the arrays of maxima and
// sums are padded to 16 rows.
template <class V>
void merge_rows(const float* part_max, const float* part_sum, const float* part_out, float* max,
                float* sum, float* out, int rows, int head_dim) {
    using f32 = typename V::f32;
    for (int first = 0; first < rows; first += V::kLanes) {
        const f32 part = V::load(part_max + first), total = V::load(max + first);
        const f32 new_max = V::max(part, total);
        const f32 base = V::keep_not_below(new_max, new_max, -kLargest);
        const f32 old_weight = exp2_nonpositive<V>(V::sub(total, base));
        const f32 new_weight = exp2_nonpositive<V>(V::sub(part, base));
        V::store(max + first, new_max);
        V::store(sum + first, V::fma(V::load(part_sum + first), new_weight,
                                     V::mul(V::load(sum + first), old_weight)));
        float old_weights[V::kLanes], new_weights[V::kLanes];
        V::store(old_weights, old_weight);
        V::store(new_weights, new_weight);
        const int n = rows - first < V::kLanes ? rows - first : V::kLanes;
        for (int r = 0; r < n; ++r) {
            const f32 old_factor = V::set1(old_weights[r]), new_factor = V::set1(new_weights[r]);
            const float* from = part_out + int64_t{first + r} * head_dim;
            float* to = out + int64_t{first + r} * head_dim;
            for (int d = 0; d < head_dim; d += V::kLanes)
                V::store(to + d, V::fma(V::load(from + d), new_factor,
                                        V::mul(V::load(to + d), old_factor)));
        }
    }
}

// Writes total / sum. Adding +0 turns -0 into +0 (see ref/attention.cc).
template <class V>
void finish_row(float sum, const float* total, float* out, int head_dim) {
    const typename V::f32 inverse = V::set1(1.0f / sum);
    for (int d = 0; d < head_dim; d += V::kLanes)
        V::store(out + d, V::fma(V::load(total + d), inverse, V::zero()));
}

}  // namespace quire::kernels::generic
