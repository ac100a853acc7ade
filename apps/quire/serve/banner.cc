#include "apps/quire/serve/banner.h"

#include <fmt/format.h>

#include "base/units.h"

namespace quire {
namespace {

std::string tier_line(const CacheStatus::TierRow& row, const ServeOptions& options) {
    std::string where = row.name;
    if (row.tier == "g3" && !options.disk_path.empty()) where = options.disk_path;
    std::string line =
        fmt::format("  {:<8} {:>10}  {}", row.tier, format_bytes(row.capacity_bytes), where);
    if (row.blocks > 0) {
        line +=
            fmt::format(", {} blocks in {} found again", row.blocks, format_bytes(row.used_bytes));
    }
    if (!row.packing.empty()) line += fmt::format(", packed with {}", row.packing);
    if (row.degraded) line += fmt::format(", NOT STORING: {}", row.degraded_why);
    return line + "\n";
}

}  // namespace

std::string banner_text(const Banner& b) {
    std::string text = fmt::format("quire {}\n", QUIRE_VERSION);
    text += fmt::format("  model    {} ({}, {}), context {} tokens, {} of KV a token\n",
                        b.model.name, b.model.family, format_bytes(b.model.file_bytes),
                        b.model.context_tokens, format_bytes(b.model.kv_bytes_per_token));
    if (b.model.kv_codec != "raw16")
        text += fmt::format(
            "  codec    {}, {} exact sink tokens; {} a token in a text of 4,096, sinks included\n",
            b.model.kv_codec, b.model.kv_sink_tokens, format_bytes(b.model.kv_bytes_4096 / 4096));
    if (b.model.kv_tokens_max < b.model.context_tokens)
        text += fmt::format("  limit    {} tokens a request, which --kv-memory holds\n",
                            b.model.kv_tokens_max);
    text += fmt::format("  compute  {} threads, {} attention, ready in {}\n", b.options.threads,
                        b.isa, format_duration(b.open_ns));
    if (!b.options.cache) text += "  cache    off\n";
    for (const auto& row : b.cache.tiers) text += tier_line(row, b.options);
    if (b.options.cache && b.options.disk_path.empty()) {
        text += "  g3             none  (--disk DIR keeps the cache over restarts)\n";
    }
    text += fmt::format(
        "\nlistening on {}\ntry:\n  curl {}/v1/chat/completions {}-d '{{\"messages\": "
        "[{{\"role\": \"user\", \"content\": \"Why is the sky blue?\"}}], "
        "\"max_tokens\": 100}}'\n",
        b.url, b.url, b.options.api_keys.empty() ? "" : "-H 'Authorization: Bearer KEY' ");
    return text;
}

}  // namespace quire
