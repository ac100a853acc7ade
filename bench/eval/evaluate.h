// A model judged with its cache coded in many ways at once, teacher-forced on a text.
//
// The text goes through the model span by span (64 tokens). Queries of a span see its own keys and
// values exact and those of earlier, closed spans coded, but for the sinks and the rest of the tail
// (exact_tokens.h), which stay 16 bit: what a query sees depends on its position alone. All
// candidates and the 16-bit reference go through a span before the next one begins, so that no
// logits are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/divergence.h"
#include "bench/eval/exact_tokens.h"
#include "bench/eval/greedy.h"
#include "bench/eval/means.h"
#include "codec/sidecar.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

struct EvalOptions {
    uint32_t threads = 1;
    // Positions judged: the text's second half, so that each sees many coded spans.
    uint32_t tokens = 2048;
    ExactTokens exact;
    // Learns the means of K and V; must not be the judged text.
    std::vector<TokenId> calibration;
    const codec::Sidecar* sidecar = nullptr;  // means learned before; then no calibration is needed
    bool layer_errors = false;                // EvalRow's
    // Told how many more tokens went through the model; may be empty.
    std::function<void(uint64_t)> computed;
};

struct EvalRow {
    std::string name;
    bool reference = false;
    bool noise_floor = false;
    ExactTokens exact;
    double bits = 0;        // per stored number of closed spans
    double total_bits = 0;  // sinks and the tail included, at the text's end
    Divergence divergence;
    // [layers] relative RMS error of attention's output over the judged positions; empty: not asked
    // for.
    std::vector<double> layer_errors;
    std::optional<LayerSchedule> schedule;  // of rows with widths per layer
    // Of greedy.h and keys.h, for whoever asks them; evaluate() leaves both empty.
    Greedy greedy;
    std::vector<bool> keys;
};

// From the sidecar, else learned from the calibration text. miss: the sidecar is another model's;
// invalid: it has no means, or the text is too short.
Result<ModelMeans> eval_means(const GgufModel& model, const EvalOptions& options);

// What eval_means() and evaluate() will tell `computed` in all.
uint64_t means_tokens(const EvalOptions& options);
uint64_t judged_tokens(size_t candidates, const EvalOptions& options);

// invalid: the text has fewer than options.tokens + 1 tokens, or the model's context fewer than
// options.tokens; as check_exact_tokens().
Status check_text(const GgufModel& model, const std::vector<TokenId>& text,
                  const EvalOptions& options);

// One row a candidate, in their order. invalid: as check_text().
Result<std::vector<EvalRow>> evaluate(const GgufModel& model, const std::vector<TokenId>& text,
                                      const std::vector<std::unique_ptr<Candidate>>& candidates,
                                      const ModelMeans& means, const EvalOptions& options);

}  // namespace quire::bench
