// Every metric of Quire: one row each, all present at zero from the start.
//
// Names start with quire_, use base units (seconds, bytes, tokens) and end with _total if they
// count. Labels take their values from the closed lists below; only `tenant` and info labels hold
// values that come at run time, and those are bounded (metrics.h). Order of enum and table is the
// same.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

enum class MetricKind : uint8_t { counter, gauge, histogram, info };

enum class Metric : uint8_t {
    // requests
    requests_total,
    http_responses_total,
    requests_running,
    requests_waiting,
    connections,
    connections_refused_total,
    time_to_first_token_seconds,
    inter_token_latency_seconds,
    e2e_request_latency_seconds,
    request_queue_seconds,
    request_prefill_seconds,
    request_decode_seconds,
    // engine
    prompt_tokens_total,
    generation_tokens_total,
    computed_tokens_total,
    steps_total,
    step_seconds,
    step_tokens,
    preemptions_total,
    overlapped_loads_total,
    overlap_drops_total,
    overlap_wait_milliseconds_total,
    // cache
    lookups_total,
    lookup_tokens_total,
    hit_tokens_total,
    misses_total,
    inflight_dedup_hits_total,
    published_blocks_total,
    deduplicated_blocks_total,
    stored_blocks_total,
    stored_bytes_total,
    store_skipped_blocks_total,
    store_seconds,
    evicted_blocks_total,
    loaded_blocks_total,
    loaded_bytes_total,
    load_seconds,
    load_failures_total,
    pinned_blocks,
    leases,
    leases_waiting,
    leases_expired_total,
    pending_loads,
    pending_stores,
    pending_store_bytes,
    block_lifetime_seconds,
    block_idle_before_evict_seconds,
    block_reuse_gap_seconds,
    index_blocks,
    index_bytes,
    // tiers
    tier_blocks,
    tier_used_bytes,
    tier_capacity_bytes,
    tier_degraded,
    corrupt_total,
    io_errors_total,
    packed_blocks_total,
    unpacked_blocks_total,
    packed_from_bytes_total,
    packed_to_bytes_total,
    // tenants
    tenant_requests_total,
    tenant_prompt_tokens_total,
    tenant_hit_tokens_total,
    tenant_blocks,
    // process
    log_lines_total,
    log_dropped_total,
    resident_memory_bytes,
    start_time_seconds,
    build_info,
    model_info,
    count,  // not a metric: how many there are
};

namespace label {

// Indexes are those of core/tier.h.
inline constexpr std::string_view kTiers[] = {"g1", "g2", "g3", "g3.5", "g4"};

enum class Outcome : uint8_t { completed, cancelled, timeout, rejected, invalid, error };
inline constexpr std::string_view kOutcomes[] = {"completed", "cancelled", "timeout",
                                                 "rejected",  "invalid",   "error"};

// HTTP status codes that the server sends; others count as their class's first. See http_code().
inline constexpr std::string_view kHttpCodes[] = {"200", "204", "400", "401", "403", "404",
                                                  "405", "408", "413", "415", "422", "429",
                                                  "431", "499", "500", "501", "503", "504"};

// The server's routes; any other path, and what never was a request, counts as "other".
inline constexpr std::string_view kHttpRoutes[] = {
    "/health",         "/ready",       "/version",        "/metrics",
    "/v1/models",      "/v1/models/*", "/v1/completions", "/v1/chat/completions",
    "/tokenize",       "/detokenize",  "/v1/cache",       "/v1/cache/explain",
    "/v1/cache/flush", "other"};

enum class Miss : uint8_t {
    never_seen,
    evicted,
    corrupt,
    io_error,
    not_admitted,
    flushed,
    other_salt,
    other_tenant,
    other_model,
    other_packing,
    cheaper_to_recompute,
    no_space,
    cache_off,
};
inline constexpr std::string_view kMisses[] = {"never_seen",
                                               "evicted",
                                               "corrupt",
                                               "io_error",
                                               "not_admitted",
                                               "flushed",
                                               "other_salt",
                                               "other_tenant",
                                               "other_model",
                                               "other_packing",
                                               "cheaper_to_recompute",
                                               "no_space",
                                               "cache_off"};

enum class Evict : uint8_t { capacity, flushed, quota, corrupt, io_error, cleaned };
inline constexpr std::string_view kEvicts[] = {"capacity", "flushed",  "quota",
                                               "corrupt",  "io_error", "cleaned"};

enum class Skip : uint8_t { policy, busy, full, io_error };
inline constexpr std::string_view kSkips[] = {"policy", "busy", "full", "io_error"};

enum class Preempt : uint8_t { spill, recompute };
inline constexpr std::string_view kPreempts[] = {"spill", "recompute"};

inline constexpr std::string_view kLogLevels[] = {"debug", "info", "warn", "error"};

// The index in kHttpCodes for any status code.
constexpr size_t http_code(int status) {
    size_t of_class = 0;
    for (size_t i = 0; i < std::size(kHttpCodes); ++i) {
        const std::string_view text = kHttpCodes[i];
        const int code = (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
        if (code == status) return i;
        if (code == status / 100 * 100) of_class = i;
    }
    return of_class;
}

// The index in kHttpRoutes of a route's path.
constexpr size_t http_route(std::string_view path) {
    size_t i = 0;
    while (i + 1 < std::size(kHttpRoutes) && kHttpRoutes[i] != path) ++i;
    return i;
}

}  // namespace label

struct MetricLabel {
    std::string_view name;
    std::span<const std::string_view> values = {};  // empty with a name: values come at run time
};

struct MetricRow {
    Metric id;
    MetricKind kind;
    std::string_view name;
    std::string_view help;
    std::array<MetricLabel, 2> labels = {};
    std::span<const double> buckets = {};
};

// One row per Metric, in its order.
std::span<const MetricRow> metric_table();

}  // namespace quire
