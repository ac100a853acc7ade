// The turned mean of coded keys: factors of a query's row, and what they add to scores. Written
// over an ISA vocabulary V; the order of operations is that of ref/attention.cc.
#pragma once

#include "kernels/attention_plan.h"

namespace quire::kernels::generic {

// Of the row's query, in the model's space; `row` counts within the item.
[[gnu::always_inline]] inline void find_turns(const AttnTurns& turns, int kv_head, const float* q,
                                              float scale, int row, float* factors) {
    float* to = factors + int64_t{2} * row * turns.n_pairs;
    for (int i = 0; i < turns.n_pairs; ++i) {
        const AttnPairMean& m = turns.pairs[kv_head * turns.n_pairs + i];
        const float x = q[m.x] * scale, y = q[m.y] * scale;
        to[2 * i] = __builtin_fmaf(x, m.mean_x, y * m.mean_y);
        to[2 * i + 1] = __builtin_fmaf(y, m.mean_x, -(x * m.mean_y));
    }
}

// Adds to R rows' scores of the keys of a tile from first_coded on; factors: of the first row.
template <class V, int R>
void add_turns(const AttnTurns& turns, int kv_head, int tile, int first_coded, const float* factors,
               float* s) {
    using f32 = typename V::f32;
    constexpr int kPairsMax = 128;
    float here[kPairsMax][2][R];  // factors at the tile's start
    const AttnPairMean* pairs = turns.pairs + int64_t{kv_head} * turns.n_pairs;
    const float* far = turns.far + int64_t{2} * (tile / kKeyTileTokens) * turns.n_angles;
    for (int i = 0; i < turns.n_pairs; ++i) {
        const float c = far[2 * pairs[i].angle], sine = far[2 * pairs[i].angle + 1];
        for (int r = 0; r < R; ++r) {
            const float* ab = factors + int64_t{2} * (r * turns.n_pairs + i);
            here[i][0][r] = __builtin_fmaf(ab[0], c, ab[1] * sine);
            here[i][1][r] = __builtin_fmaf(ab[1], c, -(ab[0] * sine));
        }
    }
    for (int key = first_coded; key < kKeyTileTokens; key += V::kLanes) {
        f32 acc[R];
        for (int r = 0; r < R; ++r) acc[r] = V::load(s + r * kKeyTileTokens + key);
        for (int i = 0; i < turns.n_pairs; ++i) {
            const float* near = turns.near + int64_t{2} * pairs[i].angle * kKeyTileTokens + key;
            const f32 cosine = V::load(near), sine = V::load(near + kKeyTileTokens);
            for (int r = 0; r < R; ++r) {
                acc[r] = V::fma(V::set1(here[i][0][r]), cosine, acc[r]);
                acc[r] = V::fma(V::set1(here[i][1][r]), sine, acc[r]);
            }
        }
        for (int r = 0; r < R; ++r) V::store(s + r * kKeyTileTokens + key, acc[r]);
    }
}

}  // namespace quire::kernels::generic
