// The bodies of /v1/completions and /v1/chat/completions as values. Pure: bytes in, struct or error
// out.
//
// What the model decides (does the prompt fit, is a token id in the vocabulary) is checked by
// generation_plan.h, which knows the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/types.h"
#include "engine/api.h"
#include "server/api_error.h"

namespace quire::server {

// Text, or token ids as the client made them.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct GenerationBody {
    bool chat = false;
    std::string model;  // empty: whatever is served

    std::vector<Prompt> prompts;        // completions: one or more
    std::vector<ChatMessage> messages;  // chat
    bool add_generation_prompt = true;  // chat

    std::optional<uint32_t> max_tokens;
    uint32_t min_tokens = 0;
    uint32_t n = 1;  // choices for each prompt
    std::vector<std::string> stop;
    Sampling sampling;  // sampling.seed only when `seeded`
    bool seeded = false;
    bool echo = false;  // completions: the prompt comes back before the answer

    bool stream = false;
    bool include_usage = false;  // stream: one more chunk with the usage
    std::string cache_salt;
    std::optional<std::string> kv_codec;  // none: the server's

    std::vector<std::string> ignored_fields;
};

inline constexpr uint32_t kMaxChoices = 128;  // prompts x n of one request
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 512;
inline constexpr size_t kMaxSaltBytes = 256;
inline constexpr size_t kMaxCodecBytes = 64;
inline constexpr int32_t kMaxLogprobs = 20;

ApiResult<GenerationBody> parse_completion(std::string_view bytes);
ApiResult<GenerationBody> parse_chat(std::string_view bytes);

}  // namespace quire::server
