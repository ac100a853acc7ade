// A body and an engine give a plan: every prompt as tokens, checked against the model before any
// work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api.h"
#include "server/openai_request.h"

namespace quire::server {

struct PlannedPrompt {
    std::vector<TokenId> tokens;
    std::string text;  // only when it is echoed
};

struct GenerationPlan {
    GenerationBody body;
    std::vector<PlannedPrompt> prompts;
};

// Parses, checks the model's name, tokenizes, checks the context. May take milliseconds; any
// thread.
ApiResult<GenerationPlan> plan_generation(const EngineApi& engine, std::string_view bytes,
                                          bool chat);

// The prompts of a body as tokens, nothing else checked than that ids are in the vocabulary.
ApiResult<std::vector<PlannedPrompt>> plan_prompts(const EngineApi& engine,
                                                   const GenerationBody& body);

// An error unless `asked` is empty or names the served model.
std::optional<ApiError> check_model(const EngineApi& engine, const std::string& asked);

// What the engine is asked for choice `choice` = prompt index * n + i. The n choices of one prompt
// get consecutive seeds, so that they differ and can be had again.
GenerateRequest engine_request(const GenerationPlan& plan, uint32_t choice, uint32_t tokens_max,
                               uint64_t random_seed);

}  // namespace quire::server
