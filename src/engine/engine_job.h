// Job: one request on its way through the engine. Owned and used by the engine's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cache/cache_types.h"
#include "engine/api.h"
#include "engine/model/sampler.h"
#include "engine/model/utf8.h"
#include "engine/stop_matcher.h"

namespace quire {

struct Lane;

struct Job {
    RequestId id = 0;  // in order of arrival
    Lane* lane = nullptr;
    GenerateRequest request;
    EventSink sink;
    std::vector<TokenId> tokens;  // the prompt, then what was generated
    uint32_t prompt_tokens = 0;
    uint32_t computed = 0;  // positions whose KV is complete under the current lease
    LeaseId lease = 0;      // 0: none
    bool started = false;   // its first lease became ready: timing has begun
    bool cancelled = false;
    bool expired = false;    // the cache says that its lease's time is over
    bool late_load = false;  // was dropped from a step for it: waits until all has landed
    int64_t entered_ns = 0;  // the begin of the step it entered while loading; 0: none
    uint32_t preemptions = 0;
    uint64_t finished_before = 0;     // of its lane's requests, when it last gave up its pages
    uint32_t told_prompt_tokens = 1;  // whose logprobs were sent, the first (it has none) included

    std::unique_ptr<Sampler> sampler;
    Utf8Assembler utf8;
    StopMatcher stops;

    int64_t submitted_ns = 0;
    int64_t deadline_ns = 0;
    int64_t admitted_ns = 0;
    int64_t ready_ns = 0;
    int64_t first_token_ns = 0;
    RequestTiming timing;

    Job(GenerateRequest r, EventSink s)
        : request(std::move(r)), sink(std::move(s)), tokens(request.prompt), stops(request.stop) {}
    uint32_t generated() const { return static_cast<uint32_t>(tokens.size()) - prompt_tokens; }
    bool decoding() const { return computed + 1 == tokens.size() && computed >= prompt_tokens; }
};

}  // namespace quire
