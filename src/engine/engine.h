// The embedded engine: continuous batching of GGUF models over the cache.
//
// One thread owns the model, the cache and all requests; it sleeps when there is nothing to do.
// Verbs of EngineApi reach it through a mailbox. See engine_loop.cc for the life of a step.
#pragma once

#include <memory>

#include "base/result.h"
#include "cache/cache_types.h"
#include "engine/api.h"
#include "engine/engine_options.h"

namespace quire {

// Counters and gauges for metrics; a copy, consistent in itself.
struct EngineStats {
    uint64_t steps = 0, step_ns = 0, forward_ns = 0;
    uint64_t prompt_tokens = 0, computed_prompt_tokens = 0, generated_tokens = 0;
    uint64_t finished[6] = {};  // by Finish
    uint64_t preemptions = 0, spilled = 0;
    // Requests that entered a step while their pages were loading, and were dropped from it; what
    // steps waited for layers.
    uint64_t overlapped = 0, overlap_dropped = 0, overlap_wait_ns = 0;
    uint64_t running = 0, waiting = 0;
    CacheStats cache;  // of all codecs together
    // By codec, in the order of ModelInfo::kv_codecs.
    struct Codec {
        uint64_t running = 0, waiting = 0;
        uint64_t g1_capacity_bytes = 0, g1_used_bytes = 0;
        uint64_t lookup_tokens = 0, hit_tokens = 0, g1_hit_tokens = 0;
    };
    std::vector<Codec> codecs;
    std::vector<TierStats> tiers;  // the lower tiers, in order
    std::vector<Tier> tier_names;
};

class Engine : public EngineApi {
 public:
    virtual EngineStats stats() = 0;
};

// Opens the model and the tiers. Errors name the file, directory or option and the remedy.
Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options);

}  // namespace quire
