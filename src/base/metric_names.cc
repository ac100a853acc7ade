#include "base/metric_names.h"

namespace quire {
namespace {

// Seconds. First tokens and latencies use the bucket edges that dashboards of other servers expect.
constexpr double kFirstToken[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640};
constexpr double kInterToken[] = {.001, .0025, .005, .01, .025, .05, .075, .1,  .15, .2,
                                  .3,   .4,    .5,   .75, 1,    2.5, 5,    7.5, 10};
constexpr double kLatency[] = {.05, .1, .3, .5, .8, 1,  1.5, 2,   2.5, 5,  10,
                               15,  20, 30, 40, 50, 60, 120, 240, 480, 960};
constexpr double kStep[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5};
constexpr double kTransfer[] = {.0001, .00025, .0005, .001, .0025, .005, .01, .025,
                                .05,   .1,     .25,   .5,   1,     2.5,  5};
constexpr double kTokens[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr double kAge[] = {.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 604800};

constexpr MetricLabel kTier{"tier", label::kTiers};
constexpr MetricLabel kTenant{"tenant"};
constexpr std::array<MetricLabel, 2> kByTier = {kTier};
constexpr std::array<MetricLabel, 2> kByTenant = {kTenant};

using K = MetricKind;
using M = Metric;

constexpr MetricRow kMetricRows[] = {
    {M::requests_total,
     K::counter,
     "quire_requests_total",
     "Generation requests by how they ended.",
     {{{"outcome", label::kOutcomes}}}},
    {M::http_responses_total,
     K::counter,
     "quire_http_responses_total",
     "HTTP responses by route and status code.",
     {{{"route", label::kHttpRoutes}, {"code", label::kHttpCodes}}}},
    {M::requests_running, K::gauge, "quire_requests_running", "Requests being computed."},
    {M::requests_waiting, K::gauge, "quire_requests_waiting",
     "Requests accepted and not yet started."},
    {M::connections, K::gauge, "quire_connections", "Open client connections."},
    {M::connections_refused_total, K::counter, "quire_connections_refused_total",
     "Connections closed at once because too many are open."},
    {M::time_to_first_token_seconds,
     K::histogram,
     "quire_time_to_first_token_seconds",
     "From receiving a request to its first token.",
     {},
     kFirstToken},
    {M::inter_token_latency_seconds,
     K::histogram,
     "quire_inter_token_latency_seconds",
     "Between one token of a request and the next.",
     {},
     kInterToken},
    {M::e2e_request_latency_seconds,
     K::histogram,
     "quire_e2e_request_latency_seconds",
     "From receiving a request to its last token.",
     {},
     kLatency},
    {M::request_queue_seconds,
     K::histogram,
     "quire_request_queue_seconds",
     "From accepting a request to starting it.",
     {},
     kFirstToken},
    {M::request_prefill_seconds,
     K::histogram,
     "quire_request_prefill_seconds",
     "Loading and computing a request's prompt.",
     {},
     kFirstToken},
    {M::request_decode_seconds,
     K::histogram,
     "quire_request_decode_seconds",
     "From a request's first token to its last.",
     {},
     kLatency},

    {M::prompt_tokens_total, K::counter, "quire_prompt_tokens_total",
     "Tokens of prompts received."},
    {M::generation_tokens_total, K::counter, "quire_generation_tokens_total", "Tokens generated."},
    {M::computed_tokens_total, K::counter, "quire_computed_tokens_total",
     "Prompt tokens that were computed, not loaded."},
    {M::steps_total, K::counter, "quire_steps_total", "Steps of the engine."},
    {M::step_seconds, K::histogram, "quire_step_seconds", "Duration of a step.", {}, kStep},
    {M::step_tokens, K::histogram, "quire_step_tokens", "Tokens in a step.", {}, kTokens},
    {M::preemptions_total,
     K::counter,
     "quire_preemptions_total",
     "Running requests set back to make room, by what becomes of their blocks.",
     {{{"how", label::kPreempts}}}},
    {M::overlapped_loads_total, K::counter, "quire_overlapped_loads_total",
     "Requests that entered a step while their blocks were still being loaded."},
    {M::overlap_drops_total, K::counter, "quire_overlap_drops_total",
     "Requests dropped from such a step because their load was late or failed."},
    {M::overlap_wait_milliseconds_total, K::counter, "quire_overlap_wait_milliseconds_total",
     "What steps waited for layers that were still being loaded."},

    {M::lookups_total, K::counter, "quire_lookups_total", "Prompts looked up in the cache."},
    {M::lookup_tokens_total, K::counter, "quire_lookup_tokens_total",
     "Tokens of prompts looked up."},
    {M::hit_tokens_total, K::counter, "quire_hit_tokens_total",
     "Prompt tokens served from the cache, by the tier they came from.", kByTier},
    {M::misses_total,
     K::counter,
     "quire_misses_total",
     "Lookups by why the hit ended where it did.",
     {{{"reason", label::kMisses}}}},
    {M::inflight_dedup_hits_total, K::counter, "quire_inflight_dedup_hits_total",
     "Requests that waited for another one computing the same blocks."},
    {M::published_blocks_total, K::counter, "quire_published_blocks_total",
     "Blocks that the engine computed and published."},
    {M::deduplicated_blocks_total, K::counter, "quire_deduplicated_blocks_total",
     "Published blocks that were there already."},
    {M::stored_blocks_total, K::counter, "quire_stored_blocks_total", "Blocks stored in a tier.",
     kByTier},
    {M::stored_bytes_total, K::counter, "quire_stored_bytes_total", "Bytes stored in a tier.",
     kByTier},
    {M::store_skipped_blocks_total,
     K::counter,
     "quire_store_skipped_blocks_total",
     "Blocks offered to a tier and not stored.",
     {{kTier, {"reason", label::kSkips}}}},
    {M::store_seconds, K::histogram, "quire_store_seconds", "Duration of a batch of stores.",
     kByTier, kTransfer},
    {M::evicted_blocks_total,
     K::counter,
     "quire_evicted_blocks_total",
     "Blocks that left a tier.",
     {{kTier, {"reason", label::kEvicts}}}},
    {M::loaded_blocks_total, K::counter, "quire_loaded_blocks_total", "Blocks loaded from a tier.",
     kByTier},
    {M::loaded_bytes_total, K::counter, "quire_loaded_bytes_total", "Bytes loaded from a tier.",
     kByTier},
    {M::load_seconds, K::histogram, "quire_load_seconds",
     "Duration of a request's load from a tier.", kByTier, kTransfer},
    {M::load_failures_total, K::counter, "quire_load_failures_total",
     "Blocks that a tier promised and could not deliver.", kByTier},
    {M::pinned_blocks, K::gauge, "quire_pinned_blocks", "Blocks that a request holds in G1."},
    {M::leases, K::gauge, "quire_leases", "Leases on blocks."},
    {M::leases_waiting, K::gauge, "quire_leases_waiting",
     "Leases that wait for another's computing."},
    {M::leases_expired_total, K::counter, "quire_leases_expired_total",
     "Leases not released before their deadline."},
    {M::pending_loads, K::gauge, "quire_pending_loads", "Blocks being loaded."},
    {M::pending_stores, K::gauge, "quire_pending_stores", "Blocks being stored in lower tiers."},
    {M::pending_store_bytes, K::gauge, "quire_pending_store_bytes",
     "Bytes being stored in lower tiers."},
    {M::block_lifetime_seconds, K::histogram, "quire_block_lifetime_seconds",
     "From a block's entering a tier to its leaving.", kByTier, kAge},
    {M::block_idle_before_evict_seconds, K::histogram, "quire_block_idle_before_evict_seconds",
     "From a block's last use to its leaving a tier.", kByTier, kAge},
    {M::block_reuse_gap_seconds, K::histogram, "quire_block_reuse_gap_seconds",
     "Between one use of a block and the next.", kByTier, kAge},
    {M::index_blocks, K::gauge, "quire_index_blocks", "Blocks that the index knows."},
    {M::index_bytes, K::gauge, "quire_index_bytes", "Memory of the index."},

    {M::tier_blocks, K::gauge, "quire_tier_blocks", "Blocks in a tier.", kByTier},
    {M::tier_used_bytes, K::gauge, "quire_tier_used_bytes", "Bytes that a tier uses.", kByTier},
    {M::tier_capacity_bytes, K::gauge, "quire_tier_capacity_bytes", "Bytes that a tier may use.",
     kByTier},
    {M::tier_degraded, K::gauge, "quire_tier_degraded", "1 while a tier refuses to store.",
     kByTier},
    {M::corrupt_total, K::counter, "quire_corrupt_total", "Blocks that failed verification.",
     kByTier},
    {M::io_errors_total, K::counter, "quire_io_errors_total", "Failed I/O operations.", kByTier},
    {M::packed_blocks_total, K::counter, "quire_packed_blocks_total",
     "Blocks that a tier packed with its codec.", kByTier},
    {M::unpacked_blocks_total, K::counter, "quire_unpacked_blocks_total",
     "Packed blocks that were read back.", kByTier},
    {M::packed_from_bytes_total, K::counter, "quire_packed_from_bytes_total",
     "Bytes of packed blocks before.", kByTier},
    {M::packed_to_bytes_total, K::counter, "quire_packed_to_bytes_total",
     "Bytes of packed blocks after.", kByTier},

    {M::tenant_requests_total, K::counter, "quire_tenant_requests_total", "Requests of a tenant.",
     kByTenant},
    {M::tenant_prompt_tokens_total, K::counter, "quire_tenant_prompt_tokens_total",
     "Prompt tokens of a tenant.", kByTenant},
    {M::tenant_hit_tokens_total, K::counter, "quire_tenant_hit_tokens_total",
     "Prompt tokens of a tenant served from the cache.", kByTenant},
    {M::tenant_blocks, K::gauge, "quire_tenant_blocks", "Blocks of a tenant in the index.",
     kByTenant},

    {M::log_lines_total,
     K::counter,
     "quire_log_lines_total",
     "Log lines by level.",
     {{{"level", label::kLogLevels}}}},
    {M::log_dropped_total, K::counter, "quire_log_dropped_total",
     "Log lines that could not be written at once."},
    {M::resident_memory_bytes, K::gauge, "quire_resident_memory_bytes",
     "Resident memory of the process."},
    {M::start_time_seconds, K::gauge, "quire_start_time_seconds",
     "When the process started, in seconds since 1970."},
    {M::build_info, K::info, "quire_build_info", "1, labelled with the version.", {{{"version"}}}},
    {M::model_info,
     K::info,
     "quire_model_info",
     "1, labelled with the model served.",
     {{{"model_name"}}}},
};

constexpr bool in_order() {
    for (size_t i = 0; i < std::size(kMetricRows); ++i)
        if (static_cast<size_t>(kMetricRows[i].id) != i) return false;
    return std::size(kMetricRows) == static_cast<size_t>(Metric::count);
}
static_assert(in_order(), "the rows of the metric table must follow enum Metric");

}  // namespace

std::span<const MetricRow> metric_table() {
    return kMetricRows;
}

}  // namespace quire
