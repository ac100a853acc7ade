// Replays request traces against one eviction policy: the prefix hit rate that a cache of
// `capacity` blocks would have had. Pure; the same trace and policy give the same result.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/evict.h"

namespace quire {

// One request: its prompt's blocks in order, named by id; equal ids mean equal prefixes.
struct TraceRequest {
    std::vector<uint32_t> blocks;
};

struct Trace {
    std::vector<TraceRequest> requests;
    uint32_t distinct_blocks = 0;  // ids are below this
    uint64_t references = 0;
};

struct ReplayResult {
    uint64_t hits = 0;  // blocks found, as a prefix from the start
    uint64_t references = 0;
    uint64_t evictions = 0;
    uint64_t skips = 0;  // times a candidate could not go
    double hit_rate() const {
        return references == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(references);
    }
};

// Mooncake's published format: one JSON object a line with the array "hash_ids". invalid names the
// line.
Result<Trace> parse_mooncake(std::string_view jsonl);

// A small stand-in with the same traits: sessions that return and grow, some shared system prompts,
// one-off requests. The same seed gives the same trace.
Trace synthetic_trace(uint32_t requests, uint64_t seed);

// Each request hits its longest resident prefix, inserts the rest in order (making room first; its
// own blocks cannot go) and touches all of it last to first. A block with resident children cannot
// go.
ReplayResult replay(const Trace& trace, const EvictionRow& row, uint32_t capacity);

}  // namespace quire
