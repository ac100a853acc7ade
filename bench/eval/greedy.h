// How long a greedy continuation stays the one of the 16-bit cache.
//
// Prompts are cut from a text and continued greedily with an exact cache. A candidate then gets
// each prompt and that continuation, and the first position at which its own most likely token is
// another is the one at which its own continuation would leave: until there both are the same
// tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/exact_tokens.h"
#include "bench/eval/means.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

struct GreedyOptions {
    uint32_t threads = 1;
    uint32_t prompts = 4;
    uint32_t prompt_tokens = 256;
    uint32_t tokens = 64;               // of a continuation, at most
    ExactTokens exact = {};
    std::function<bool(TokenId)> ends;  // a continuation ends with it; may be empty
    std::function<void(uint64_t)>
        computed;  // told how many more tokens are done with; may be empty
};

struct GreedyPrompt {
    uint32_t tokens = 0;  // of the exact continuation
    uint32_t same = 0;    // of them, before the first other one; all: there is none
};

struct Greedy {
    std::vector<GreedyPrompt> prompts;

    // Number of the first token that differs, counted from 0; none: none does. Of an even number of
    // prompts the lower of the two in the middle.
    std::optional<uint32_t> median() const;
    std::optional<uint32_t> earliest() const;
};

// What continue_greedily() will tell `computed` in all, at most.
uint64_t greedy_tokens(size_t candidates, const GreedyOptions& options);

// One a candidate, in their order. The prompts begin at even distances, each after the text's first
// token. invalid: the text has fewer than options.prompt_tokens tokens.
Result<std::vector<Greedy>> continue_greedily(
    const GgufModel& model, const std::vector<TokenId>& text,
    const std::vector<std::unique_ptr<Candidate>>& candidates, const ModelMeans& means,
    const GreedyOptions& options);

}  // namespace quire::bench
