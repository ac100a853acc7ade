// Lane: what the requests of one codec share. An engine has one for each codec that it serves.
//
// A codec makes pages of its own shape, so a lane has its own layout, pass of the model over it and
// cache; the weights, the folder on disk and the engine's thread are common to all. A step computes
// requests of one lane. Cache keys hold the layout's digest: no lane finds blocks of another.
//
// `info` never changes once the engine is open; everything else is the engine's thread's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cache/cache.h"
#include "engine/api.h"
#include "engine/engine_job.h"
#include "engine/engine_options.h"
#include "engine/model/forward.h"
#include "engine/model/gguf_model.h"
#include "tier/packed/slab_packing.h"

namespace quire {

inline constexpr size_t kLanesMax = 4;

struct Lane {
    KvCodecInfo info;
    std::unique_ptr<Forward> forward;
    std::unique_ptr<Cache> cache;

    std::deque<std::unique_ptr<Job>> queue;  // in order of arrival
    uint64_t finished = 0;                   // requests that ended, in any way
    uint64_t last_step = 0;                  // the number of its last step
    double small_step_ns = 0;                // what steps of few rows took lately
};

// What a lane is made of, known before the model's weights are prepared, which takes long.
struct LanePlan {
    KvCoding coding;
    KvLayout layout;
    // How slabs of such pages are packed in host memory and on disk; null: they are not.
    std::shared_ptr<const SlabPacking> host, cold;
};

// For options.kv_codec and each further codec of options.kv_codecs_allowed. Errors name the option.
Result<std::vector<LanePlan>> plan_lanes(const EngineOptions& options, const GgufModel& model);

// Lanes as they were planned, still without caches. `observer` sees what all of them compute, and
// may be null. REQUIRES: options.threads is not 0.
Result<std::vector<std::unique_ptr<Lane>>> open_lanes(const EngineOptions& options,
                                                      const GgufModel& model,
                                                      const std::vector<LanePlan>& plans,
                                                      KvObserver* observer);

}  // namespace quire
