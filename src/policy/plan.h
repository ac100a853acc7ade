// Pure decisions about one request and one block: load or recompute, admit to a lower tier or not.
// Stats in, plan out; replayable; no I/O, no clock. One table row per admission policy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/hash128.h"
#include "core/tier.h"

namespace quire {

// What moving and computing cost on this machine; measured at start-up and updated while serving.
struct CostModel {
    double prefill_ns_per_token = 1e6;        // at depth 0
    double prefill_ns_per_token_per_key = 0;  // added for each key already in the context
    double load_ns_per_byte[kTierCount] = {0, 0.1, 0.5, 1, 10};
    double load_latency_ns[kTierCount] = {0, 2e4, 2e5, 1e6, 5e7};
    int parallel_loads = 1;
};

// One block position of a prompt's prefix (all groups together), in order from position 0.
struct PrefixBlock {
    bool loadable = false;  // every group that needs it has it somewhere
    bool can_end = true;    // a prefix that ends with it serves every group (PrefixIndex::servable)
    Tier slowest = Tier::g1;  // the slowest tier that must be read for it (g1: nothing to load)
    uint64_t bytes[kTierCount] = {};  // bytes to load, by tier
};

struct PrefixPlan {
    uint32_t use_blocks = 0;      // blocks [0, use_blocks) are taken from the cache
    uint32_t cheaper_blocks = 0;  // blocks that exist but are cheaper to recompute
    double load_ns = 0;           // predicted
    double saved_ns = 0;          // predicted compute time saved
};

// Chooses the cut that minimises predicted load + recompute time of `prompt_tokens` tokens. Ties go
// to the longer prefix. At least one token is always left to compute. Loads cost their bytes and,
// for every `parallel_loads` blocks read from a tier, that tier's latency; tiers add up; G1 costs
// nothing.
PrefixPlan plan_prefix(std::span<const PrefixBlock> blocks, uint32_t block_tokens,
                       uint32_t prompt_tokens, const CostModel& cost);

// Admission to a tier: is a block worth writing there? Deterministic sketches inside; not
// thread-safe.
class AdmissionPolicy {
 public:
    virtual ~AdmissionPolicy() = default;
    // Called on every use of a block (computed or hit).
    virtual void record(const Hash128& hash) = 0;
    virtual bool admit(const Hash128& hash) = 0;
};

struct AdmissionRow {
    std::string_view name;  // as in --admit-host: "all", "second-use" (seen twice), "none"
    std::string_view about;
    std::unique_ptr<AdmissionPolicy> (*make)(uint32_t capacity_blocks);
};

std::span<const AdmissionRow> admission_table();
const AdmissionRow* find_admission(std::string_view name);

}  // namespace quire
