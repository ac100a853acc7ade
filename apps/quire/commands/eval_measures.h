// What `quire eval` measures beside divergence on the text: greedy continuations of prompts cut
// from it, and keys planted in it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/quire/commands/eval_report.h"
#include "base/result.h"
#include "bench/eval/greedy.h"
#include "bench/eval/keys.h"
#include "engine/model/vocab.h"

namespace CLI {
class App;
}

namespace quire::commands {

struct MeasureFlags {
    bool no_noise_floor = false;
    bool no_layer_errors = false;
    uint32_t greedy = 4;          // prompts
    uint32_t greedy_tokens = 64;  // of a continuation
    uint32_t keys = 4;
    std::optional<uint32_t> key_tokens;  // of a text with a key; none: up to kDefaultKeyTokens
    uint64_t seed = 1;
};

// `flags` must outlive the parsing.
void add_measure_flags(CLI::App* app, MeasureFlags* flags);

// Both with their sizes for a text, and all that needs the tokenizer.
struct Measures {
    bench::GreedyOptions greedy;
    bench::KeyOptions keys;
    std::vector<bench::KeyText> key_texts;  // empty: no keys

    // What measure() will tell options.computed in all, at most.
    uint64_t tokens(size_t candidates) const;
};

// As plant_keys(). `vocab` must outlive what it gives.
Result<Measures> plan_measures(const MeasureFlags& flags, const std::vector<TokenId>& text,
                               const Vocab& vocab, const GgufModel& model,
                               const bench::EvalOptions& options);

// Divergence and all that is planned, into the report's rows.
Status measure(const GgufModel& model, const std::vector<TokenId>& text,
               const std::vector<std::unique_ptr<bench::Candidate>>& candidates,
               const bench::EvalOptions& options, const Measures& measures, EvalReport* report);

}  // namespace quire::commands
