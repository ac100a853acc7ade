// Log probabilities in OpenAI's two shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/api.h"
#include "server/json_text.h"

namespace quire::server {

// chat: {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}]}
OrderedJson chat_logprobs(const EngineApi& engine, const std::vector<TokenLogprob>& tokens);

// completions: {"text_offset", "token_logprobs", "tokens", "top_logprobs"}; offsets count
// characters from `first_offset`, which moves on by the tokens' lengths.
OrderedJson completion_logprobs(const EngineApi& engine, const std::vector<TokenLogprob>& tokens,
                                uint64_t& first_offset);

}  // namespace quire::server
