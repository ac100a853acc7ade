// The values that pass between the cache and the engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "cache/ghosts.h"
#include "core/chain.h"
#include "core/kv_layout.h"
#include "core/tier.h"
#include "policy/plan.h"
#include "tier/tier.h"

namespace quire {

struct CacheOptions {
    KvLayout layout;
    ModelId model;
    uint64_t g1_bytes = uint64_t{2} << 30;
    std::string_view evict = "lru";  // a row of eviction_table()
    bool enabled = true;             // false: leases share nothing, nothing is kept
    uint32_t index_blocks_max = 1 << 20;
    // What grow() will be asked for: tokens between two commits of one lease, and leases at once.
    // With codes, exact pages for as much are set aside (tier/arena/slot_arena.h).
    uint32_t step_tokens = 512;
    uint32_t leases_max = 64;
    uint64_t pending_store_bytes_max = uint64_t{256} << 20;  // pinned; also at most a quarter of G1
    uint64_t demotion_bytes_max = uint64_t{64} << 20;        // copies on their way to a lower tier
    CostModel cost;
    Metrics* metrics = nullptr;  // histograms of loads, stores and block ages; outlives the cache
};

// A tier below G1, in order of speed. `store` outlives the cache.
struct LowerTier {
    TierStore* store = nullptr;
    std::string_view admit = "all";  // a row of admission_table()
    // true: offered every block when it is published. false: only what the tier above gives up.
    bool write_through = true;
};

using LeaseId = uint64_t;

struct AcquireRequest {
    TokenSpan prompt;
    std::string tenant;
    std::string salt;
    int64_t deadline_ns = 0;  // monotonic; the lease is reported expired after it
    bool reuse = true;        // false: compute the whole prompt (its logits are wanted)
};

// Where a lease stands. waiting and loading end by themselves (Cache::poll), each within its bound.
enum class LeaseState : uint8_t {
    waiting,  // another lease is computing the blocks this one needs next
    loading,  // blocks are being read into G1
    ready,    // [0, cached_tokens) can be attended to
};

struct LeaseInfo {
    LeaseState state = LeaseState::ready;
    uint32_t cached_tokens = 0;  // valid when ready
    uint32_t tokens_by_tier[kTierCount] = {};
    uint64_t bytes_by_tier[kTierCount] = {};
    int64_t load_ns_by_tier[kTierCount] = {};  // wall time from the load's start to its last block
    MissReason miss = MissReason::none;        // why the prefix ended where it did
    Tier miss_tier = Tier::g1;
};

// What is left of a lease's loads.
struct LoadLeft {
    double ns = 0;         // predicted, until the last block has landed; infinite: a load failed
    bool copying = false;  // it keeps cores busy, not only a device
    bool at_once = false;  // nothing of it lands much before all does
};

// What a prompt would get now, and why not more.
struct CacheExplanation {
    uint32_t prompt_blocks = 0;
    uint32_t hit_blocks = 0;
    uint32_t blocks_by_tier[kTierCount] = {};
    MissReason reason = MissReason::none;
    Tier tier = Tier::g1;
    int64_t ago_ns = -1;  // how long ago the block left; -1 unknown
    ModelId holder;       // other_model: whose blocks they are, and in which layout
    uint32_t holder_codec = kCodecRaw16;
    uint32_t holder_block_tokens = 0;
    bool differs = false;  // a nearest cached prompt is known
    uint32_t first_different_token = 0;
    TokenId expected = 0;
    TokenId actual = 0;
};

struct CacheStats {
    uint64_t lookups = 0, lookup_tokens = 0;
    uint64_t hit_tokens[kTierCount] = {};
    uint64_t misses[kMissReasonCount] = {};
    uint64_t loaded_blocks[kTierCount] = {}, loaded_bytes[kTierCount] = {};
    uint64_t load_ns[kTierCount] = {};
    uint64_t load_failures[kTierCount] = {};
    uint64_t stored_blocks[kTierCount] = {}, stored_bytes[kTierCount] = {};
    // Blocks offered and not stored: errors; not admitted; given up before there was room in the
    // queue; no room in the tier.
    uint64_t store_failures[kTierCount] = {}, store_skipped[kTierCount] = {};
    uint64_t store_busy[kTierCount] = {}, store_full[kTierCount] = {};
    uint64_t published_blocks = 0, deduplicated_blocks = 0;
    uint64_t evicted_blocks = 0, flushed_blocks = 0;
    uint64_t shared_waits =
        0;  // leases that waited for another's computing instead of repeating it
    uint64_t expired_leases = 0;
    // gauges
    uint64_t leases = 0, leases_waiting = 0, pending_loads = 0;
    uint64_t pending_stores = 0, pending_store_bytes = 0;  // under way, or owed and not begun
    uint64_t pinned_blocks = 0;
    uint64_t g1_blocks = 0, g1_used_bytes = 0, g1_capacity_bytes = 0;
    uint64_t index_blocks = 0, index_bytes = 0;
    std::vector<std::pair<std::string, uint64_t>> tenant_blocks;  // in the index, by tenant

    CacheStats& operator+=(const CacheStats& other);
};

}  // namespace quire
