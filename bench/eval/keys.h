// Pass keys planted in text and asked for at its end: whether a coded cache still finds them.
//
// Each text has one key at its own depth, whole spans of 64 tokens, and the question behind them,
// so that every key is in a coded span; none is among the sinks or in the tail. An answer
// counts when the greedy continuation of the question is the key, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/exact_tokens.h"
#include "bench/eval/means.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

struct KeyOptions {
    uint32_t keys = 4;      // texts, with a key each
    uint32_t tokens = 512;  // of each before its question, less the rest of a span
    uint64_t seed = 1;      // of the keys
    ExactTokens exact = {};
};

struct KeyText {
    double depth = 0;             // of the key, as a share of the text before the question
    std::vector<TokenId> tokens;  // the text, the question, the answer
    uint32_t answer_tokens = 0;   // of them
};

// Tokens of a text, without any that stand for its beginning.
using Tokenize = std::function<Result<std::vector<TokenId>>(std::string_view)>;

// Texts that begin at even distances in `text`, each after its first token, keys at even depths.
// The same for the same text and options. invalid: `text` or options.tokens is too short.
Result<std::vector<KeyText>> plant_keys(const std::vector<TokenId>& text, const Tokenize& tokenize,
                                        const KeyOptions& options);

struct FoundKeys {
    std::vector<bool> exact;                    // [texts] by the 16-bit cache
    std::vector<std::vector<bool>> candidates;  // [candidates][texts]
};

// What find_keys() will tell `computed` in all.
uint64_t key_tokens(size_t candidates, const std::vector<KeyText>& texts);

// `computed` is told how many more tokens are done with; may be empty.
Result<FoundKeys> find_keys(const GgufModel& model, const std::vector<KeyText>& texts,
                            const std::vector<std::unique_ptr<Candidate>>& candidates,
                            const ModelMeans& means, uint32_t threads,
                            const std::function<void(uint64_t)>& computed,
                            const ExactTokens& exact = {});

}  // namespace quire::bench
