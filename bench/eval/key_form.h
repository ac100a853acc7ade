// How much of keys' mean before RoPE a model is served with, by measurement.
//
// The mean after RoPE costs nothing, but takes off little where RoPE turns fast; the mean before
// it, turned to each key's position, costs attention time for each pair of dimensions
// (engine/model/key_turns.h). What is left is coded: its error, and with it what the answers move
// by (KL), is proportional to its energy, whatever the width. So energies are compared, of keys
// that the means were not learned from, each head's times that of the queries that read it: the
// variance of what coding adds to scores. Mean KL itself depends on a few tokens; over the text
// that a calibration has time for it does not tell the forms apart.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bench/eval/kv_pages.h"
#include "bench/eval/metric.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

// Pairs of a head that are turned. Eight make decode attention over k6v4 an eighth slower, sixteen
// a quarter.
inline constexpr std::array<uint32_t, 4> kKeyForms = {0, 4, 8, 16};
// The fewest pairs within this of the best are taken. A bit more of keys' width takes their error's
// energy to a quarter: so pairs that all together give less than a fifth of a bit are left.
inline constexpr double kKeyFormBits = 0.2;

struct KeyForm {
    uint32_t pairs = 0;
    double energy = 0;  // that is left, over what is left by the mean after RoPE alone
};

// The most pairs that can be turned in each head of the model.
uint32_t key_pairs_max(const GgufModel& model);

// The forms that the model has, on the last quarter of a text's tokens with means from those
// before. Before `queries` saw any, all heads count alike. REQUIRES: 256 tokens.
std::vector<KeyForm> judge_key_forms(const GgufModel& model, const KvPages& pages, uint32_t tokens,
                                     const QueryEnergy& queries);

// REQUIRES: there is one; pairs ascend.
uint32_t choose_key_pairs(const std::vector<KeyForm>& forms);

}  // namespace quire::bench
