// The bodies of /tokenize, /detokenize, /v1/cache/explain and /v1/cache/flush as values. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tier.h"
#include "server/openai_request.h"

namespace quire::server {

struct TokenizeBody {
    std::string model;
    std::string prompt;
    std::vector<ChatMessage> messages;  // when not empty, instead of the prompt
    bool add_special_tokens = true;
    bool add_generation_prompt = true;
    bool return_token_strs = false;
};

struct DetokenizeBody {
    std::string model;
    std::vector<TokenId> tokens;
};

struct FlushBody {
    std::vector<Tier> tiers;  // empty: all
    bool write_back = false;
};

ApiResult<TokenizeBody> parse_tokenize(std::string_view bytes);
ApiResult<DetokenizeBody> parse_detokenize(std::string_view bytes);
// Takes any body that a completion or a chat takes; what only matters for generating is checked
// too.
ApiResult<GenerationBody> parse_explain(std::string_view bytes);
// An empty body flushes everything.
ApiResult<FlushBody> parse_flush(std::string_view bytes);

}  // namespace quire::server
