// The two micro-kernels: scores of R rows against 64 keys, and R rows of probabilities times V.
//
// All accumulators stay in registers. Lanes are keys in the first and dimensions in the second, so
// that neither needs a horizontal sum, and each output is one chain of fused multiply-adds in
// ascending order.
#pragma once

#include "kernels/attention_plan.h"

namespace quire::kernels::generic {

inline constexpr int kGroupKeys = 16;
inline constexpr int kTileGroups = kKeyTileTokens / kGroupKeys;

// s[R][64] = q . K; q is [head_dim][R].
template <class V, int R, class Tile>
void score_rows(const float* q, const Tile& tile, int head_dim, float* s) {
    using f32 = typename V::f32;
    constexpr int kGroups = V::groups_per_pass(R);
    constexpr int kVecsPerGroup = kGroupKeys / V::kLanes;
    constexpr int kVecs = kGroups * kVecsPerGroup;
    for (int first = 0; first < kTileGroups; first += kGroups) {
        f32 acc[R][kVecs];
        for (int r = 0; r < R; ++r)
            for (int i = 0; i < kVecs; ++i) acc[r][i] = V::zero();
        const auto step = [&](int d) {
            f32 k[kVecs];
            for (int i = 0; i < kVecs; ++i)
                k[i] = tile.k(first + i / kVecsPerGroup, d, i % kVecsPerGroup * V::kLanes);
            for (int r = 0; r < R; ++r) {
                const f32 x = V::set1(q[d * R + r]);
                for (int i = 0; i < kVecs; ++i) acc[r][i] = V::fma(x, k[i], acc[r][i]);
            }
        };
        for (int d = 0; d < head_dim; d += 2) {
            tile.template prefetch_k<kGroups>(first, d);
            step(d);
            step(d + 1);
        }
        for (int r = 0; r < R; ++r)
            for (int i = 0; i < kVecs; ++i)
                V::store(s + r * kKeyTileTokens + first * kGroupKeys + i * V::kLanes, acc[r][i]);
    }
}

// kGroups * 16 columns from d on of: out[r] = out[r] * correction[r] + sum over keys of p[r][key] *
// V.
template <class V, int R, int kGroups, class Tile>
void weigh_columns(const float* p, const Tile& tile, int key_begin, int key_end,
                   const typename V::f32* correction, float* out, int64_t head_dim, int d) {
    using f32 = typename V::f32;
    constexpr int kVecs = kGroups * kGroupKeys / V::kLanes;
    f32 acc[R][kVecs];
    for (int r = 0; r < R; ++r)
        for (int i = 0; i < kVecs; ++i)
            acc[r][i] = V::mul(V::load(out + r * head_dim + d + i * V::kLanes), correction[r]);
    for (int group = key_begin / kGroupKeys; group * kGroupKeys < key_end; ++group) {
        const int base = group * kGroupKeys;
        const int begin = key_begin > base ? key_begin - base : 0;
        const int end = key_end - base < kGroupKeys ? key_end - base : kGroupKeys;
        for (int key = begin; key < end; ++key) {
            tile.template prefetch_v<kGroups * kGroupKeys>(group, key, d);
            f32 v[kVecs];
            for (int i = 0; i < kVecs; ++i) v[i] = tile.v(group, key, d + i * V::kLanes);
            for (int r = 0; r < R; ++r) {
                const f32 x = V::set1(p[r * kKeyTileTokens + base + key]);
                for (int i = 0; i < kVecs; ++i) acc[r][i] = V::fma(x, v[i], acc[r][i]);
            }
        }
    }
    for (int r = 0; r < R; ++r)
        for (int i = 0; i < kVecs; ++i) V::store(out + r * head_dim + d + i * V::kLanes, acc[r][i]);
}

template <class V, int R, class Tile>
void weigh_rows(const float* p, const Tile& tile, int key_begin, int key_end,
                const typename V::f32* correction, float* out, int head_dim) {
    constexpr int kGroups = V::groups_per_pass(R);
    int d = 0;
    for (; d + kGroups * kGroupKeys <= head_dim; d += kGroups * kGroupKeys)
        weigh_columns<V, R, kGroups>(p, tile, key_begin, key_end, correction, out, head_dim, d);
    if constexpr (kGroups > 1)
        for (; d < head_dim; d += kGroupKeys)
            weigh_columns<V, R, 1>(p, tile, key_begin, key_end, correction, out, head_dim, d);
}

}  // namespace quire::kernels::generic
