// Choosing the next token from logits. One Sampler per request; not thread-safe, and no two
// requests share anything, so a choice depends on the request alone: its logits, settings and seed.
//
// Order: logit_bias; penalties; at temperature 0 the largest (ties: the lowest id), else
// temperature, min_p, top_k, top_p over what is left, and one draw from a generator keyed by (seed,
// token number). The repetition penalty looks at prompt and answer, presence and frequency at the
// answer only. A NaN logit is never chosen.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/types.h"
#include "engine/api.h"

namespace quire {

// Natural log of probabilities under the raw logits, before bias, penalties and temperature.
struct Logprobs {
    float chosen = 0;
    std::vector<std::pair<TokenId, float>> top;  // descending; ties: the lower id first
};

// The log-probability of `token` and of the n most likely tokens. NaN logits count as impossible.
Logprobs logprobs_of(std::span<const float> logits, TokenId token, int32_t n);

class Sampler {
 public:
    // invalid, naming the field: a setting that is out of range, or a biased token outside the
    // vocabulary.
    static Status check(const Sampling& sampling, int32_t n_vocab);

    // REQUIRES: check() passed. `prompt` is read now and not kept.
    Sampler(Sampling sampling, TokenSpan prompt);

    // The next token; bug: no logit is a number. Does not change the sampler: call accept() with
    // it. `banned` tokens (end tokens before min_tokens, or with ignore_eos) are never chosen.
    // REQUIRES: they ascend and are of the vocabulary.
    Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> banned);
    // Counts a token of the answer.
    void accept(TokenId token);
    uint64_t accepted() const { return accepted_; }
    const Sampling& sampling() const { return sampling_; }

 private:
    struct Seen {
        bool in_prompt = false;
        uint32_t in_answer = 0;
    };
    struct Candidate {
        float logit;
        TokenId token;
    };

    // The logits after bias and penalties: the input itself when nothing applies.
    std::span<const float> adjust(std::span<const float> logits);
    void keep_top_k();
    void keep_top_p(float max);
    TokenId draw(float max) const;

    Sampling sampling_;
    std::unordered_map<TokenId, Seen> seen_;
    uint64_t accepted_ = 0;
    std::vector<float> adjusted_;        // scratch
    std::vector<Candidate> candidates_;  // scratch
};

// Uniform in [0, 1) from a counter: the same for a (seed, index) on every machine.
double uniform_at(uint64_t seed, uint64_t index);

}  // namespace quire
