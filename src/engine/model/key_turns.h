// The part of keys' mean before RoPE that codes go without, turned to each key's own position.
//
// A constant mean after RoPE takes off little where RoPE turns fast. So in each head the few pairs
// of dimensions in which it leaves the most energy, |mean before|^2 - |mean after|^2, are treated
// apart: the mean before RoPE, turned as the key is, is taken from what is coded, and attention
// adds its product with the query to the score (kernels/attention.h, AttnTurns). Exact pages keep
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/sidecar.h"
#include "engine/model/hparams.h"
#include "engine/model/rope.h"
#include "kernels/attention.h"

namespace quire {

// Of a head, at most. How many it is says the sidecar. Each costs a decode two multiply-adds a key
// and row: eight make attention over k6v4 an eighth slower (`quire bench attention`).
inline constexpr int32_t kKeyTurnPairs = codec::kMaxKeyPairs;

struct KeyTurns {
    int32_t n_pairs = 0;                       // of each head
    uint32_t kv_heads = 0;                     // of each layer
    std::vector<int32_t> rope_pairs;           // [angles] which of RoPE's pairs
    std::vector<kernels::AttnPairMean> pairs;  // [layers][kv_heads][n_pairs]
    std::vector<float> k_mean;                 // as Sidecar::k_mean, zero in these pairs

    // Of one KV head.
    std::span<const kernels::AttnPairMean> of(uint32_t layer, uint32_t head) const {
        const auto n = static_cast<size_t>(n_pairs);
        return std::span(pairs).subspan((size_t{layer} * kv_heads + head) * n, n);
    }
};

// REQUIRES: the sidecar has both means of keys, for heads of at least rope_dim dimensions, as many
// in each layer.
KeyTurns find_key_turns(const codec::Sidecar& sidecar, RopeStyle style, int32_t rope_dim);

// AttnTurns::near and far for positions [0, context_tokens).
struct TurnTables {
    std::vector<float> near;
    std::vector<float> far;
};
TurnTables turn_tables(const KeyTurns& turns, const RopeTable& rope, int32_t context_tokens);

// Takes a head's turned means off one key; `table` is RoPE's at the key's position
// (RopeTable::fill) of rope_pairs pairs. What was there goes to `saved`, two numbers a pair;
// put_back() restores it.
void take_off(const KeyTurns& turns, std::span<const kernels::AttnPairMean> head,
              const float* table, int32_t rope_pairs, float* key, float* saved);
// Adds the same to a key that comes without it.
void add_on(const KeyTurns& turns, std::span<const kernels::AttnPairMean> head, const float* table,
            int32_t rope_pairs, float* key);
void put_back(std::span<const kernels::AttnPairMean> head, const float* saved, float* key);

}  // namespace quire
