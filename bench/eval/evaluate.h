// A model judged with its cache coded in many ways at once, teacher-forced on a text.
//
// The text goes through the model span by span (64 tokens). Queries of a span see its own keys and
// values exact and those of earlier, closed spans coded, but for the first block (attention's
// sinks), which stays 16 bit: what a query sees depends on its position alone. All candidates and
// the 16-bit reference go through a span before the next one begins, so that no logits are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/divergence.h"
#include "bench/eval/kv_pages.h"
#include "codec/sidecar.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

struct EvalOptions {
    uint32_t threads = 1;
    // Positions judged: the text's second half, so that each sees many coded spans.
    uint32_t tokens = 2048;
    // Learns the means of K and V; must not be the judged text.
    std::vector<TokenId> calibration;
    const codec::Sidecar* sidecar = nullptr;  // means learned before; then no calibration is needed
    // Told how many more tokens went through the model; may be empty.
    std::function<void(uint64_t)> computed;
};

// What evaluate() will tell `computed` in all.
uint64_t tokens_to_compute(size_t candidates, const EvalOptions& options);

struct EvalRow {
    std::string name;
    bool reference = false;
    double bits = 0;        // per stored number of closed spans
    double total_bits = 0;  // sinks and the open span included, at the text's end
    Divergence divergence;
};

// One row a candidate, in their order. invalid: the text has fewer than options.tokens + 1 tokens;
// miss: the sidecar is another model's.
Result<std::vector<EvalRow>> evaluate(const GgufModel& model, const std::vector<TokenId>& text,
                                      const std::vector<std::unique_ptr<Candidate>>& candidates,
                                      const EvalOptions& options);

}  // namespace quire::bench
