// What `quire eval` prints: a table for people, JSON for programs, a picture of divergence against
// bits.
#pragma once

#include <string>
#include <vector>

#include "bench/bars.h"
#include "bench/eval/evaluate.h"
#include "bench/eval/keys.h"

namespace quire::commands {

struct EvalReport {
    std::string model;
    std::string text;  // where it came from
    uint32_t tokens = 0;
    bench::ExactTokens exact = {};
    std::vector<bench::EvalRow> rows;
    std::vector<bench::BarRow> bars;
    bench::GreedyOptions greedy = {.prompts = 0};  // 0 prompts: not asked for
    bench::KeyOptions keys = {.keys = 0};          // 0 keys: not asked for
    std::vector<double> key_depths = {};           // [keys]
    std::vector<bool> keys_by_16_bit = {};         // [keys] whether the 16-bit cache found it
};

std::string eval_text(const EvalReport& report);
std::string eval_json(const EvalReport& report);
// Mean divergence, logarithmic, against bits a number: ours joined along the frontier, peers as
// crosses.
std::string eval_svg(const EvalReport& report);

// Most bits first.
std::vector<bench::EvalRow> by_bits(std::vector<bench::EvalRow> rows);

// Names of reference rows below our frontier: at no more bits than some row of ours with less
// divergence there is nothing to show; a peer that has less divergence than every row of ours with
// no more bits than it has is named.
std::vector<std::string> peers_below(const std::vector<bench::EvalRow>& rows);

}  // namespace quire::commands
