// Asking an engine and waiting for the answer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/api.h"

namespace quire::bench {

struct Answer {
    std::vector<TokenId> tokens;
    RequestTiming timing;
    Finish finish = Finish::none;
};

// Submits all requests at once and waits for every answer. The first error of any request, or
// timeout when `timeout_ns` passed (the requests are then cancelled).
Result<std::vector<Answer>> generate_all(EngineApi& engine, std::vector<GenerateRequest> requests,
                                         int64_t timeout_ns);
Result<Answer> generate(EngineApi& engine, GenerateRequest request, int64_t timeout_ns);

// Greedy, `max_tokens` whatever they are, so that two runs do the same work.
GenerateRequest greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens);

// Exactly `n_tokens` tokens from the start of `text`, BOS included where the model wants one.
// invalid when the text is too short.
Result<std::vector<TokenId>> prompt_of(const EngineApi& engine, std::string_view text,
                                       size_t n_tokens);

inline constexpr int64_t kAnswerWait_ns = int64_t{600} * 1'000'000'000;

}  // namespace quire::bench
