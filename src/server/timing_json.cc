#include "server/timing_json.h"

#include <algorithm>
#include <cmath>

namespace quire::server {
namespace {

// Milliseconds to the microsecond.
double milliseconds(int64_t ns) {
    return std::round(static_cast<double>(ns) / 1e3) / 1e3;
}

RequestTiming slowest(const std::vector<RequestTiming>& choices) {
    RequestTiming all = choices.front();
    for (size_t i = 1; i < choices.size(); ++i) {
        const RequestTiming& one = choices[i];
        all.queue_ns = std::max(all.queue_ns, one.queue_ns);
        all.prefill_ns = std::max(all.prefill_ns, one.prefill_ns);
        all.decode_ns = std::max(all.decode_ns, one.decode_ns);
        all.first_token_ns = std::max(all.first_token_ns, one.first_token_ns);
        all.prompt_tokens += one.prompt_tokens;
        all.completion_tokens += one.completion_tokens;
        for (int tier = 0; tier < kTierCount; ++tier) {
            all.load_ns[tier] = std::max(all.load_ns[tier], one.load_ns[tier]);
            all.load_bytes[tier] += one.load_bytes[tier];
            all.cached_tokens[tier] += one.cached_tokens[tier];
        }
    }
    return all;
}

}  // namespace

uint32_t cached_tokens(const RequestTiming& timing) {
    uint32_t sum = 0;
    for (uint32_t tokens : timing.cached_tokens) sum += tokens;
    return sum;
}

OrderedJson timing_json(const RequestTiming& timing) {
    OrderedJson load_ms = OrderedJson::object();
    OrderedJson load_bytes = OrderedJson::object();
    OrderedJson cached = OrderedJson::object();
    for (int i = 0; i < kTierCount; ++i) {
        const bool untouched =
            timing.load_ns[i] == 0 && timing.load_bytes[i] == 0 && timing.cached_tokens[i] == 0;
        // The three tiers that every server has are always listed, the others when used.
        if (untouched && i > static_cast<int>(Tier::g3)) continue;
        const std::string name(tier_name(static_cast<Tier>(i)));
        load_ms[name] = milliseconds(timing.load_ns[i]);
        load_bytes[name] = timing.load_bytes[i];
        cached[name] = timing.cached_tokens[i];
    }
    return {{"queue_ms", milliseconds(timing.queue_ns)},
            {"load_ms", std::move(load_ms)},
            {"prefill_ms", milliseconds(timing.prefill_ns)},
            {"first_token_ms", milliseconds(timing.first_token_ns)},
            {"decode_ms", milliseconds(timing.decode_ns)},
            {"load_bytes", std::move(load_bytes)},
            {"cached_tokens", std::move(cached)},
            {"prompt_tokens", timing.prompt_tokens},
            {"completion_tokens", timing.completion_tokens},
            {"miss_reason", timing.miss_reason}};
}

OrderedJson quire_json(const std::vector<RequestTiming>& choices,
                       const std::vector<std::string>& ignored_fields) {
    OrderedJson out;
    out["timing"] = timing_json(slowest(choices));
    if (choices.size() > 1) {
        out["choices"] = OrderedJson::array();
        for (const RequestTiming& one : choices) out["choices"].push_back(timing_json(one));
    }
    if (!ignored_fields.empty()) out["ignored_fields"] = ignored_fields;
    return out;
}

std::string visible_reason(const std::string& reason) {
    return reason == "other_tenant" || reason == "other_salt" ? "never_seen" : reason;
}

}  // namespace quire::server
