#include "apps/quire/serve/engine_metrics.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include <unistd.h>

#include "base/log.h"

namespace quire {
namespace {

void set(Metrics& metrics, Metric id, uint64_t value) {
    metrics.gauge(id).set(static_cast<int64_t>(value));
}

void copy_cache(Metrics& metrics, const CacheStats& cache) {
    metrics.counter(Metric::lookups_total).mirror(cache.lookups);
    metrics.counter(Metric::lookup_tokens_total).mirror(cache.lookup_tokens);
    metrics.counter(Metric::inflight_dedup_hits_total).mirror(cache.shared_waits);
    metrics.counter(Metric::published_blocks_total).mirror(cache.published_blocks);
    metrics.counter(Metric::deduplicated_blocks_total).mirror(cache.deduplicated_blocks);
    for (int tier = 0; tier < kTierCount; ++tier) {
        metrics.counter(Metric::hit_tokens_total, tier).mirror(cache.hit_tokens[tier]);
        metrics.counter(Metric::loaded_blocks_total, tier).mirror(cache.loaded_blocks[tier]);
        metrics.counter(Metric::loaded_bytes_total, tier).mirror(cache.loaded_bytes[tier]);
        metrics.counter(Metric::load_failures_total, tier).mirror(cache.load_failures[tier]);
        metrics.counter(Metric::stored_blocks_total, tier).mirror(cache.stored_blocks[tier]);
        metrics.counter(Metric::stored_bytes_total, tier).mirror(cache.stored_bytes[tier]);
        metrics.counter(Metric::store_skipped_blocks_total, tier, label::Skip::policy)
            .mirror(cache.store_skipped[tier]);
        metrics.counter(Metric::store_skipped_blocks_total, tier, label::Skip::busy)
            .mirror(cache.store_busy[tier]);
        metrics.counter(Metric::store_skipped_blocks_total, tier, label::Skip::full)
            .mirror(cache.store_full[tier]);
        metrics.counter(Metric::store_skipped_blocks_total, tier, label::Skip::io_error)
            .mirror(cache.store_failures[tier]);
    }
    metrics.counter(Metric::evicted_blocks_total, Tier::g1, label::Evict::capacity)
        .mirror(cache.evicted_blocks);
    metrics.counter(Metric::evicted_blocks_total, Tier::g1, label::Evict::flushed)
        .mirror(cache.flushed_blocks);
    metrics.counter(Metric::leases_expired_total).mirror(cache.expired_leases);
    set(metrics, Metric::pinned_blocks, cache.pinned_blocks);
    set(metrics, Metric::leases, cache.leases);
    set(metrics, Metric::leases_waiting, cache.leases_waiting);
    set(metrics, Metric::pending_loads, cache.pending_loads);
    set(metrics, Metric::pending_stores, cache.pending_stores);
    set(metrics, Metric::pending_store_bytes, cache.pending_store_bytes);
    set(metrics, Metric::index_blocks, cache.index_blocks);
    set(metrics, Metric::index_bytes, cache.index_bytes);
}

void copy_tier(Metrics& metrics, Tier tier, uint64_t blocks, uint64_t used, uint64_t capacity) {
    metrics.gauge(Metric::tier_blocks, tier).set(static_cast<int64_t>(blocks));
    metrics.gauge(Metric::tier_used_bytes, tier).set(static_cast<int64_t>(used));
    metrics.gauge(Metric::tier_capacity_bytes, tier).set(static_cast<int64_t>(capacity));
}

void copy_tiers(Metrics& metrics, const EngineStats& stats) {
    copy_tier(metrics, Tier::g1, stats.cache.g1_blocks, stats.cache.g1_used_bytes,
              stats.cache.g1_capacity_bytes);
    for (size_t i = 0; i < stats.tiers.size(); ++i) {
        const TierStats& from = stats.tiers[i];
        const Tier tier = stats.tier_names[i];
        copy_tier(metrics, tier, from.blocks, from.used_bytes, from.capacity_bytes);
        metrics.gauge(Metric::tier_degraded, tier).set(from.degraded ? 1 : 0);
        metrics.counter(Metric::corrupt_total, tier).mirror(from.corrupt_blocks);
        metrics.counter(Metric::io_errors_total, tier).mirror(from.io_errors);
        if (!from.packing.empty()) {
            metrics.counter(Metric::packed_blocks_total, tier).mirror(from.packed_blocks);
            metrics.counter(Metric::unpacked_blocks_total, tier).mirror(from.unpacked_blocks);
            metrics.counter(Metric::packed_from_bytes_total, tier).mirror(from.packed_from_bytes);
            metrics.counter(Metric::packed_to_bytes_total, tier).mirror(from.packed_to_bytes);
        }
        metrics.counter(Metric::evicted_blocks_total, tier, label::Evict::capacity)
            .mirror(from.evicted_blocks);
    }
}

// Tenants beyond the registry's bound share one series.
void copy_tenants(Metrics& metrics, const CacheStats& cache) {
    std::map<size_t, uint64_t> blocks;
    for (const auto& [tenant, held] : cache.tenant_blocks)
        blocks[metrics.tenant(tenant.empty() ? "default" : tenant)] += held;
    for (const auto& [index, held] : blocks)
        metrics.gauge(Metric::tenant_blocks, index).set(static_cast<int64_t>(held));
}

void copy_log(Metrics& metrics) {
    for (size_t level = 0; level < std::size(label::kLogLevels); ++level)
        metrics.counter(Metric::log_lines_total, level)
            .mirror(log::lines_written(static_cast<log::Level>(level)));
    metrics.counter(Metric::log_dropped_total).mirror(log::lines_dropped());
}

// Field 2 of statm is the resident set in pages.
uint64_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    uint64_t total = 0;
    uint64_t resident = 0;
    statm >> total >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

// The cache's reasons and the label's are two lists that name the same things.
void copy_misses(Metrics& metrics, const CacheStats& cache, bool several_tenants) {
    uint64_t misses[kMissReasonCount];
    std::copy(std::begin(cache.misses), std::end(cache.misses), misses);
    if (several_tenants) {
        misses[static_cast<size_t>(MissReason::never_seen)] +=
            std::exchange(misses[static_cast<size_t>(MissReason::other_tenant)], 0);
    }
    for (int i = 0; i < kMissReasonCount; ++i) {
        const std::string_view name = miss_reason_name(static_cast<MissReason>(i));
        for (size_t at = 0; at < std::size(label::kMisses); ++at) {
            if (label::kMisses[at] != name) continue;
            metrics.counter(Metric::misses_total, at).mirror(misses[i]);
        }
    }
}

std::shared_ptr<void> publish_engine_metrics(Metrics& metrics, Engine& engine,
                                             bool several_tenants) {
    return metrics.on_collect([&engine, several_tenants](Metrics& into) {
        const EngineStats stats = engine.stats();
        into.counter(Metric::steps_total).mirror(stats.steps);
        into.counter(Metric::prompt_tokens_total).mirror(stats.prompt_tokens);
        into.counter(Metric::computed_tokens_total).mirror(stats.computed_prompt_tokens);
        into.counter(Metric::generation_tokens_total).mirror(stats.generated_tokens);
        into.counter(Metric::preemptions_total, label::Preempt::spill).mirror(stats.spilled);
        into.counter(Metric::preemptions_total, label::Preempt::recompute)
            .mirror(stats.preemptions - stats.spilled);
        into.counter(Metric::overlapped_loads_total).mirror(stats.overlapped);
        into.counter(Metric::overlap_drops_total).mirror(stats.overlap_dropped);
        into.counter(Metric::overlap_wait_milliseconds_total)
            .mirror(stats.overlap_wait_ns / 1'000'000);
        copy_cache(into, stats.cache);
        copy_misses(into, stats.cache, several_tenants);
        copy_tiers(into, stats);
        copy_tenants(into, stats.cache);
        copy_log(into);
        set(into, Metric::resident_memory_bytes, resident_bytes());
    });
}

}  // namespace quire
