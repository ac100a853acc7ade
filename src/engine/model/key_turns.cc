#include "engine/model/key_turns.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

using kernels::AttnPairMean;
using kernels::kKeyTileTokens;

float energy(const float* vector, std::pair<int32_t, int32_t> at) {
    return vector[at.first] * vector[at.first] + vector[at.second] * vector[at.second];
}

// RoPE's pairs in which a constant mean leaves the most, the most first.
std::vector<int32_t> strongest(const float* before, const float* after, RopeStyle style,
                               int32_t pairs, int32_t n) {
    std::vector<std::pair<float, int32_t>> left;
    for (int32_t i = 0; i < pairs; ++i) {
        const auto at = rope_dimensions(style, pairs, i);
        left.emplace_back(energy(after, at) - energy(before, at), i);  // ascending: most left first
    }
    std::ranges::sort(left);
    std::vector<int32_t> chosen;
    for (int32_t i = 0; i < n; ++i) chosen.push_back(left[static_cast<size_t>(i)].second);
    return chosen;
}

// A pair's mean at the position that the table is of.
std::pair<float, float> turned(const KeyTurns& turns, const AttnPairMean& m, const float* table,
                               int32_t rope_pairs) {
    const int32_t pair = turns.rope_pairs[static_cast<size_t>(m.angle)];
    const float cosine = table[pair], sine = table[rope_pairs + pair];
    return {m.mean_x * cosine - m.mean_y * sine, m.mean_x * sine + m.mean_y * cosine};
}

}  // namespace

KeyTurns find_key_turns(const codec::Sidecar& sidecar, RopeStyle style, int32_t rope_dim) {
    KeyTurns turns;
    const int32_t rope_pairs = rope_dim / 2;
    const auto wanted = static_cast<int32_t>(sidecar.key_pairs.value_or(codec::kKeyPairsUnchosen));
    turns.n_pairs = std::min({wanted, kKeyTurnPairs, rope_pairs});
    turns.kv_heads = sidecar.layers.front().kv_heads;
    turns.k_mean = sidecar.k_mean;
    std::vector<int32_t> angle_of(static_cast<size_t>(rope_pairs), -1);
    for (uint32_t layer = 0; layer < sidecar.layers.size(); ++layer) {
        for (uint32_t head = 0; head < sidecar.layers[layer].kv_heads; ++head) {
            const size_t offset = codec::vector_offset(sidecar, layer, head);
            const float* before = sidecar.k_mean_before.data() + offset;
            float* constant = turns.k_mean.data() + offset;
            for (const int32_t pair :
                 strongest(before, constant, style, rope_pairs, turns.n_pairs)) {
                int32_t& angle = angle_of[static_cast<size_t>(pair)];
                if (angle < 0) {
                    angle = static_cast<int32_t>(turns.rope_pairs.size());
                    turns.rope_pairs.push_back(pair);
                }
                const auto [x, y] = rope_dimensions(style, rope_pairs, pair);
                turns.pairs.push_back({static_cast<int16_t>(x), static_cast<int16_t>(y), angle,
                                       before[x], before[y]});
                constant[x] = constant[y] = 0.0f;
            }
        }
    }
    return turns;
}

TurnTables turn_tables(const KeyTurns& turns, const RopeTable& rope, int32_t context_tokens) {
    const auto pairs = static_cast<size_t>(rope.pairs());
    const size_t angles = turns.rope_pairs.size();
    const auto tiles = static_cast<size_t>((context_tokens + kKeyTileTokens - 1) / kKeyTileTokens);
    TurnTables tables{std::vector<float>(angles * 2 * kKeyTileTokens),
                      std::vector<float>(tiles * angles * 2)};
    std::vector<float> row(2 * pairs);
    // Writes cos and sin of each angle at a position, one after the other with a stride.
    const auto fill = [&](size_t position, float* to, size_t stride) {
        rope.fill(static_cast<int32_t>(position), row.data());
        for (const int32_t pair : turns.rope_pairs)
            for (size_t part = 0; part < 2; ++part, to += stride)
                *to = row[part * pairs + static_cast<size_t>(pair)];
    };
    for (size_t j = 0; j < kKeyTileTokens; ++j) fill(j, tables.near.data() + j, kKeyTileTokens);
    for (size_t t = 0; t < tiles; ++t)
        fill(t * kKeyTileTokens, tables.far.data() + t * angles * 2, 1);
    return tables;
}

void take_off(const KeyTurns& turns, std::span<const AttnPairMean> head, const float* table,
              int32_t rope_pairs, float* key, float* saved) {
    for (const AttnPairMean& m : head) {
        *saved++ = key[m.x];
        *saved++ = key[m.y];
        const auto [x, y] = turned(turns, m, table, rope_pairs);
        key[m.x] -= x;
        key[m.y] -= y;
    }
}

void add_on(const KeyTurns& turns, std::span<const AttnPairMean> head, const float* table,
            int32_t rope_pairs, float* key) {
    for (const AttnPairMean& m : head) {
        const auto [x, y] = turned(turns, m, table, rope_pairs);
        key[m.x] += x;
        key[m.y] += y;
    }
}

void put_back(std::span<const AttnPairMean> head, const float* saved, float* key) {
    for (const AttnPairMean& m : head) {
        key[m.x] = *saved++;
        key[m.y] = *saved++;
    }
}

}  // namespace quire
