#include "server/cache_json.h"

#include <string>

#include "server/timing_json.h"

namespace quire::server {
namespace {

OrderedJson tier_json(const CacheStatus::TierRow& row) {
    OrderedJson out = {{"tier", row.tier},
                       {"name", row.name},
                       {"capacity_bytes", row.capacity_bytes},
                       {"used_bytes", row.used_bytes},
                       {"blocks", row.blocks},
                       {"pinned_blocks", row.pinned_blocks},
                       {"hits", row.hits},
                       {"evicted", row.evicted},
                       {"corrupt", row.corrupt},
                       {"pending", row.pending},
                       {"degraded", row.degraded}};
    if (!row.packing.empty())
        out["packing"] = {{"name", row.packing},
                          {"from_bytes", row.packed_from_bytes},
                          {"to_bytes", row.packed_to_bytes}};
    if (row.degraded) out["degraded_why"] = row.degraded_why;
    return out;
}

OrderedJson kv_json(const KvCodecInfo& kv) {
    return {{"codec", kv.name},
            {"block_tokens", kv.block_tokens},
            {"sink_tokens", kv.sink_tokens},
            {"recent_tokens", kv.recent_tokens},
            {"exact_layers", kv.exact_layers},
            {"bytes_per_token", kv.bytes_per_token},
            {"bytes_of_4096_tokens", kv.bytes_4096}};
}

OrderedJson lookups_json(uint64_t tokens, uint64_t hit_tokens) {
    const double rate =
        tokens == 0 ? 0.0 : static_cast<double>(hit_tokens) / static_cast<double>(tokens);
    return {{"tokens", tokens}, {"hit_tokens", hit_tokens}, {"hit_rate", rate}};
}

OrderedJson codec_json(const CacheStatus::CodecRow& row) {
    OrderedJson out = kv_json(row.kv);
    out["g1_capacity_bytes"] = row.g1_capacity_bytes;
    out["g1_used_bytes"] = row.g1_used_bytes;
    out["lookups"] = lookups_json(row.lookup_tokens, row.hit_tokens);
    out["requests"] = {{"running", row.running}, {"waiting", row.waiting}};
    return out;
}

OrderedJson sidecar_json(const SidecarStatus& sidecar) {
    using State = SidecarStatus::State;
    switch (sidecar.state) {
        case State::none:
            return {{"state", "none"}};
        case State::used:
            return {{"state", "used"}, {"hash", sidecar.hash}};
        case State::learning:
            return {{"state", "learning"},
                    {"tokens", sidecar.tokens_seen},
                    {"of_tokens", sidecar.tokens_wanted}};
        case State::learned:
            return {{"state", "learned"}, {"hash", sidecar.hash}, {"used", "from the next start"}};
        case State::failed:
            return {{"state", "failed"}, {"why", sidecar.why}};
    }
    return {};
}

}  // namespace

OrderedJson cache_status_json(const CacheStatus& status, const EngineLoad& load) {
    OrderedJson out = {{"tiers", OrderedJson::array()}};
    for (const auto& row : status.tiers) out["tiers"].push_back(tier_json(row));
    out["kv"] = kv_json(status.codecs.front().kv);
    out["codecs"] = OrderedJson::array();
    for (const auto& row : status.codecs) out["codecs"].push_back(codec_json(row));
    out["sidecar"] = sidecar_json(status.sidecar);
    out["index"] = {{"blocks", status.index_blocks}, {"bytes", status.index_bytes}};
    out["lookups"] = lookups_json(status.lookup_tokens, status.hit_tokens);
    out["leases"] = status.leases;
    out["pending_loads"] = status.pending_loads;
    out["pending_stores"] = status.pending_stores;
    out["requests"] = {{"running", load.running}, {"waiting", load.waiting}};
    return out;
}

OrderedJson explanation_json(const Explanation& explanation, bool hide_others) {
    const std::string reason =
        hide_others ? visible_reason(explanation.reason) : explanation.reason;
    const bool hidden = reason != explanation.reason;
    OrderedJson by_tier = OrderedJson::object();
    for (int i = 0; i < kTierCount; ++i) {
        if (explanation.hit_tokens_by_tier[i] == 0) continue;
        by_tier[std::string(tier_name(static_cast<Tier>(i)))] = explanation.hit_tokens_by_tier[i];
    }
    OrderedJson out = {{"prompt_tokens", explanation.prompt_tokens},
                       {"prompt_blocks", explanation.prompt_blocks},
                       {"hit_tokens", explanation.hit_tokens},
                       {"hit_tokens_by_tier", std::move(by_tier)},
                       {"reason", reason},
                       {"detail", hidden ? "This prompt was never seen." : explanation.detail}};
    if (explanation.first_different_token && !hidden) {
        out["first_different_token"] = *explanation.first_different_token;
        out["expected_text"] = explanation.expected_text;
        out["actual_text"] = explanation.actual_text;
    }
    return out;
}

}  // namespace quire::server
