// A body and an engine give a plan: every prompt as tokens, checked against the model before any
// work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api.h"
#include "server/openai_request.h"
#include "server/request_stop.h"

namespace quire::server {

struct PlannedPrompt {
    std::vector<TokenId> tokens;
    std::string text;  // only when it is echoed
};

struct GenerationPlan {
    GenerationBody body;
    KvCodecInfo kv;  // that the request's pages are written in
    std::vector<PlannedPrompt> prompts;
};

// Parses, checks the model's name, tokenizes, checks the context. May take milliseconds, and ends
// soon after `stop` says so; any thread.
ApiResult<GenerationPlan> plan_generation(const EngineApi& engine, std::string_view bytes,
                                          bool chat, const RequestStop& stop);

// The prompts of a body as tokens; checked is that ids are in the vocabulary and that texts are not
// far over the context.
ApiResult<std::vector<PlannedPrompt>> plan_prompts(const EngineApi& engine,
                                                   const GenerationBody& body,
                                                   const RequestStop& stop);

// The error for a request that is no longer wanted; none: go on.
std::optional<ApiError> check_stop(const RequestStop& stop);

// An error unless `asked` is empty or names the served model.
std::optional<ApiError> check_model(const EngineApi& engine, const std::string& asked);
// The served codec that was asked for, by any of its names; the default when none was. Lives as
// long as the engine's model().
ApiResult<const KvCodecInfo*> served_codec(const EngineApi& engine,
                                           const std::optional<std::string>& asked);

// What the engine is asked for choice `choice` = prompt index * n + i. The n choices of one prompt
// get consecutive seeds, so that they differ and can be had again.
GenerateRequest engine_request(const GenerationPlan& plan, uint32_t choice, uint32_t tokens_max,
                               uint64_t random_seed);

}  // namespace quire::server
