// One sequence going through a model with its cache coded behind it: queries of a span of 64 tokens
// see keys and values of their own span, of the rest of the tail and of the sinks exact, and others
// as a candidate gives them back.
//
// Borrows the forward, the candidate and the means; several sequences may share them, one stepping
// at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"
#include "core/types.h"

namespace quire::bench {

class CodedSequence {
 public:
    // Room for `tokens`. `candidate` null: all stays 16 bit. One that is served goes through a pass
    // of its own, over the forward's buffers, with its own exact tokens.
    static Result<CodedSequence> create(Forward* forward, const Candidate* candidate,
                                        const ModelMeans* means, uint32_t tokens,
                                        const ExactTokens& exact = {});

    // Tokens at positions [at, at + n) of one span; those behind them are forgotten. Where the
    // last token ends a span, the one that leaves the tail is closed: coded. Logits of the last
    // `logit_rows`, valid until the forward's next step.
    Result<std::span<const float>> step(TokenSpan tokens, uint32_t at, uint32_t logit_rows);

    // Any number of tokens from position `at` on, span by span. on_row(i, logits) is told the
    // logits of the last `judged` of them, i counting up from 0, until it says false: then the
    // rest is not computed. The number of tokens that were.
    Result<uint32_t> run(TokenSpan tokens, uint32_t at, uint32_t judged,
                         const std::function<bool(uint32_t, std::span<const float>)>& on_row);

 private:
    // Codes what is left of [0, last).
    void close(uint32_t last);

    std::unique_ptr<Forward> own_;  // of what is served
    Forward* forward_ = nullptr;
    const ServedCache* served_ = nullptr;
    const Candidate* candidate_ = nullptr;
    const ModelMeans* means_ = nullptr;
    ExactTokens exact_;
    KvPages pages_;
    uint32_t closed_ = 0;  // spans before it are coded
};

// The most likely token; ties: the lowest id.
TokenId best_token(std::span<const float> logits);

}  // namespace quire::bench
