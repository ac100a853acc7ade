#include <algorithm>

#include "cache/cache_types.h"

namespace quire {
namespace {

void add(uint64_t (&to)[kTierCount], const uint64_t (&from)[kTierCount]) {
    for (int tier = 0; tier < kTierCount; ++tier) to[tier] += from[tier];
}

}  // namespace

// A figure that is added to the struct is to be added here: the size tells.
static_assert(sizeof(CacheStats) == (19 + 11 * kTierCount + kMissReasonCount) * sizeof(uint64_t) +
                                        sizeof(CacheStats::tenant_blocks));

CacheStats& CacheStats::operator+=(const CacheStats& other) {
    lookups += other.lookups;
    lookup_tokens += other.lookup_tokens;
    add(hit_tokens, other.hit_tokens);
    for (int i = 0; i < kMissReasonCount; ++i) misses[i] += other.misses[i];
    add(loaded_blocks, other.loaded_blocks);
    add(loaded_bytes, other.loaded_bytes);
    add(load_ns, other.load_ns);
    add(load_failures, other.load_failures);
    add(stored_blocks, other.stored_blocks);
    add(stored_bytes, other.stored_bytes);
    add(store_failures, other.store_failures);
    add(store_skipped, other.store_skipped);
    add(store_busy, other.store_busy);
    add(store_full, other.store_full);
    published_blocks += other.published_blocks;
    deduplicated_blocks += other.deduplicated_blocks;
    evicted_blocks += other.evicted_blocks;
    flushed_blocks += other.flushed_blocks;
    shared_waits += other.shared_waits;
    expired_leases += other.expired_leases;
    leases += other.leases;
    leases_waiting += other.leases_waiting;
    pending_loads += other.pending_loads;
    pending_stores += other.pending_stores;
    pending_store_bytes += other.pending_store_bytes;
    pinned_blocks += other.pinned_blocks;
    g1_blocks += other.g1_blocks;
    g1_used_bytes += other.g1_used_bytes;
    g1_capacity_bytes += other.g1_capacity_bytes;
    index_blocks += other.index_blocks;
    index_bytes += other.index_bytes;
    for (const auto& [tenant, blocks] : other.tenant_blocks) {
        auto it =
            std::ranges::find(tenant_blocks, tenant, &std::pair<std::string, uint64_t>::first);
        if (it == tenant_blocks.end())
            tenant_blocks.emplace_back(tenant, blocks);
        else
            it->second += blocks;
    }
    return *this;
}

}  // namespace quire
