// From a server's replies to findings. Anything in a reply may be missing or odd.
#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/doctor/checks.h"
#include "base/units.h"

namespace quire::doctor {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMissMetric = "quire_misses_total";

struct Remedy {
    std::string_view reason;
    std::string_view remedy;  // empty: in order
};
constexpr Remedy kRemedies[] = {
    {"whole_prompt", ""},
    {"never_seen", ""},
    {"cheaper_to_recompute", ""},
    {"flushed", ""},
    {"evicted",
     "the tiers are too small for what comes back: raise --kv-memory and --host-memory, "
     "or add --disk DIR"},
    {"no_space", "running requests pin all KV memory: raise --kv-memory or lower --max-running"},
    {"not_admitted", "admission kept blocks out: --admit-host all and --admit-disk all keep more"},
    {"other_salt",
     "clients send the same text under different cache_salt values; use one salt per "
     "group that may share"},
    {"other_tenant", "the same text comes under different API keys; tenants never share blocks"},
    {"other_model",
     "the blocks belong to another model, codec, sidecar or version: those of the own model come "
     "again by themselves, for others keep one directory per model"},
    {"other_packing",
     "the disk's blocks were packed by another --kv-codec-cold, --kv-codec-host or sidecar; start "
     "the server with the same ones, or let it replace them"},
    {"corrupt", "blocks failed their checksums: run quire inspect --verify DIR and check the disk"},
    {"io_error", "the disk fails reads: see the server's log, dmesg and smartctl"},
    {"cache_off", "the server runs with its cache off; start it without --no-cache"},
};

uint64_t count_of(const Json& object, const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
}

std::string text_of(const Json& object, const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

Finding judge_tier(const Json& tier) {
    const std::string what = fmt::format("tier {}", text_of(tier, "tier"));
    const std::string found = fmt::format(
        "{} of {}, {} blocks, {} hits, {} evicted", format_bytes(count_of(tier, "used_bytes")),
        format_bytes(count_of(tier, "capacity_bytes")), count_of(tier, "blocks"),
        count_of(tier, "hits"), count_of(tier, "evicted"));
    if (tier.value("degraded", Json(false)) == Json(true))
        return failure(what, found + "; stores nothing new: " + text_of(tier, "degraded_why"),
                       "it serves what it has; free space or replace the disk, then it recovers");
    if (const uint64_t corrupt = count_of(tier, "corrupt"); corrupt > 0)
        return warning(what, fmt::format("{}, {} corrupt", found, corrupt),
                       std::string(miss_remedy("corrupt")));
    return good(what, found);
}

// Value of `reason` in name{...,reason="x",...}; empty when there is none.
std::string_view reason_of(std::string_view line) {
    constexpr std::string_view kLabel = "reason=\"";
    const size_t at = line.find(kLabel);
    if (at == line.npos) return {};
    const size_t end = line.find('"', at + kLabel.size());
    return end == line.npos ? "" : line.substr(at + kLabel.size(), end - at - kLabel.size());
}

std::map<std::string, uint64_t> count_misses(std::string_view text) {
    std::map<std::string, uint64_t> counts;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::string_view reason = reason_of(line);
        const size_t blank = line.rfind(' ');
        if (!line.starts_with(kMissMetric) || reason.empty() || blank == line.npos) continue;
        double value = 0;
        std::from_chars(line.data() + blank + 1, line.data() + line.size(), value);
        if (value >= 1 && value < 1e18) counts[std::string(reason)] += static_cast<uint64_t>(value);
    }
    return counts;
}

}  // namespace

std::string_view miss_remedy(std::string_view reason) {
    for (const Remedy& row : kRemedies)
        if (row.reason == reason) return row.remedy;
    return {};
}

Findings judge_cache_status(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("tiers") || !json["tiers"].is_array())
        return {warning("cache", "the reply of /v1/cache is not understood",
                        "is this a Quire server of this version?")};
    Findings findings;
    for (const Json& tier : json["tiers"])
        if (tier.is_object()) findings.push_back(judge_tier(tier));
    const Json lookups = json.value("lookups", Json::object());
    const uint64_t tokens = lookups.is_object() ? count_of(lookups, "tokens") : 0;
    const uint64_t hits = lookups.is_object() ? count_of(lookups, "hit_tokens") : 0;
    const double share = tokens == 0 ? 0 : 100.0 * static_cast<double>(hits) / tokens;
    findings.push_back(
        good("hits", fmt::format("{} of {} prompt tokens ({:.1f} %)", hits, tokens, share)));
    return findings;
}

Findings judge_misses(std::string_view prometheus_text) {
    const auto counts = count_misses(prometheus_text);
    if (counts.empty()) return {good("misses", "none so far")};
    std::vector<std::pair<std::string, uint64_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    Findings findings;
    for (const auto& [reason, count] : sorted) {
        const std::string found = fmt::format("{} x {}", count, reason);
        const std::string_view remedy = miss_remedy(reason);
        findings.push_back(remedy.empty() ? good("lookups ended", found)
                                          : warning("lookups ended", found, std::string(remedy)));
    }
    return findings;
}

Finding judge_explanation(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || text_of(json, "reason").empty())
        return warning("this prompt", "the reply of /v1/cache/explain is not understood",
                       "is this a Quire server of this version?");
    const std::string reason = text_of(json, "reason");
    const std::string found =
        fmt::format("{} of {} tokens would hit ({}): {}", count_of(json, "hit_tokens"),
                    count_of(json, "prompt_tokens"), reason, text_of(json, "detail"));
    const std::string_view remedy = miss_remedy(reason);
    if (remedy.empty()) return good("this prompt", found);
    return warning("this prompt", found, std::string(remedy));
}

}  // namespace quire::doctor
