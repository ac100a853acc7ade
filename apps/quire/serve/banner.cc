#include "apps/quire/serve/banner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// Nothing where there is nothing to say of it.
std::string codec_lines(const ModelInfo& model, const KvCodecInfo& kv) {
    const bool several = model.kv_codecs.size() > 1;
    std::string text;
    if (kv.name != "raw16" || several) {
        text += fmt::format("  {:<8} {}", &kv == &model.kv() ? "codec" : "allowed", kv.name);
        if (kv.sink_tokens > 0) text += fmt::format(", {} exact sink tokens", kv.sink_tokens);
        if (kv.recent_tokens > kv.block_tokens)
            text += fmt::format(", up to {} exact recent tokens", kv.recent_tokens);
        if (!kv.exact_layers.empty())
            text += fmt::format(", exact layers {}", fmt::join(kv.exact_layers, ","));
        text +=
            fmt::format("; {} a token in a text of 4,096{}\n", format_bytes(kv.bytes_4096 / 4096),
                        kv.sink_tokens > 0 ? ", sinks included" : "");
    }
    if (kv.tokens_max < model.context_tokens)
        text += fmt::format("  limit    {} tokens a request{}, which {}--kv-memory holds\n",
                            kv.tokens_max, several ? " in " + kv.name : std::string(),
                            several ? "its share of " : "");
    return text;
}

}  // namespace

std::string banner_text(const Banner& b) {
    std::string text = fmt::format("quire {}\n", QUIRE_VERSION);
    text += fmt::format("  model    {} ({}, {}), context {} tokens, {} of KV a token\n",
                        b.model.name, b.model.family, format_bytes(b.model.file_bytes),
                        b.model.context_tokens, format_bytes(b.model.kv().bytes_per_token));
    for (const KvCodecInfo& kv : b.model.kv_codecs) text += codec_lines(b.model, kv);
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
