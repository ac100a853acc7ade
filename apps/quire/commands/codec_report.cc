#include "apps/quire/commands/codec_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "codec/codec_names.h"

namespace quire::commands {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> words_for(const codec::CodecRow& row) {
    std::vector<std::string> words = {row.unit == codec::Unit::token ? "token" : "tile"};
    if (row.can.random_access) words.emplace_back("random access");
    if (row.can.fused) words.emplace_back("for fused attention");
    if (row.can.lossless) words.emplace_back("lossless");
    if (row.can.needs_calibration) words.emplace_back("needs a sidecar");
    return words;
}

// Whom the family's names can be given to, as the legend explains.
std::string takers_of(const codec::CodecRow& row) {
    const codec::CodecUses uses = codec::uses_of(row);
    if (uses.pages) return "page";
    return uses.packing ? "cold, host" : "eval";
}

std::string isas_of(const codec::CodecRow& row) {
    std::string text;
    for (const codec::PageCodecOps& ops : row.ops())
        text += fmt::format("{}{}{}", text.empty() ? "" : " ", ops.name,
                            ops.cpu_has_it() ? "" : " (not this CPU)");
    return text;
}

// What members of a family cost, from the least to the most; those for bf16 alone in bf16.
struct Cost {
    size_t members = 0;
    double least_bits = 0, most_bits = 0;
    size_t least_bytes = 0, most_bytes = 0;
    std::string refusal;  // of a member that does not fit
};

Cost cost_of(const codec::CodecRow& row, const codec::Geometry& geometry) {
    Cost cost;
    for (const codec::CodecSpec& spec : row.specs()) {
        codec::Geometry g = geometry;
        if (row.unsupported(spec, g) != nullptr) g.element = Element::bf16;
        if (const char* reason = row.unsupported(spec, g)) {
            cost.refusal = reason;
            continue;
        }
        const double bits = codec::bits_per_element(spec, g);
        const size_t bytes = codec::page_bytes(spec, g);
        cost.least_bits = cost.members == 0 ? bits : std::min(cost.least_bits, bits);
        cost.most_bits = std::max(cost.most_bits, bits);
        cost.least_bytes = cost.members == 0 ? bytes : std::min(cost.least_bytes, bytes);
        cost.most_bytes = std::max(cost.most_bytes, bytes);
        ++cost.members;
    }
    return cost;
}

template <typename T>
std::string range_text(const char* format, T least, T most) {
    const std::string low = fmt::format(fmt::runtime(format), least);
    const std::string high = fmt::format(fmt::runtime(format), most);
    return low == high ? low : low + " to " + high;
}

std::string dump(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

size_t problems(const std::vector<CodecCheck>& checks) {
    return static_cast<size_t>(std::ranges::count_if(
        checks, [](const CodecCheck& check) { return !check.problem.empty(); }));
}

}  // namespace

std::string codec_list_legend() {
    return "Columns:\n"
           "  bits a number  of what a page stores, scales and padding included\n"
           "  of raw16       the same over 16 bits\n"
           "  page bytes     of one block, layer and KV head: keys and values\n"
           "  id             what headers of slabs on disk call the codec (--all)\n"
           "  given to       page: --kv-codec, --kv-codec-allow and a request's kv_codec\n"
           "                 cold, host: --kv-codec-cold and --kv-codec-host, which also take\n"
           "                 zstd and ec:BITS; these pack whole slabs and have no row\n"
           "                 eval: only quire eval --caches, which takes all rows, and ec:BITS\n";
}

std::string codec_families_text(const codec::Geometry& geometry) {
    TextTable table({{"names", Align::left},
                     {"bits a number", Align::left},
                     {"of raw16", Align::left},
                     {"page bytes", Align::left},
                     {"given to", Align::left}});
    std::string notes;
    for (const codec::CodecRow& row : codec::codec_table()) {
        const Cost cost = cost_of(row, geometry);
        const bool fits = cost.members > 0;
        table.row({row.pattern, fits ? range_text("{:.2f}", cost.least_bits, cost.most_bits) : "",
                   fits ? range_text("{:.0f} %", cost.least_bits / 0.16, cost.most_bits / 0.16)
                        : "does not fit",
                   fits ? range_text("{}", cost.least_bytes, cost.most_bytes) : "",
                   takers_of(row)});
        notes += fmt::format("{}\n  {}\n  {}; {}\n", row.pattern, row.summary,
                             fmt::join(words_for(row), ", "), isas_of(row));
        if (!cost.refusal.empty())
            notes +=
                fmt::format("  {} of {} fit: {}\n", cost.members, row.specs().size(), cost.refusal);
    }
    return fmt::format(
        "head_dim {}, blocks of {} tokens; --all: every codec by name, NAME...: some; --help: "
        "columns\n\n{}"
        "page: --kv-codec, --kv-codec-allow, a request's kv_codec; cold, host: --kv-codec-cold and "
        "-host,\nwhich take zstd and ec:BITS too; eval: quire eval --caches alone, which takes all "
        "and ec:BITS\n\n{}",
        geometry.head_dim, geometry.block_tokens, table.text(), notes);
}

std::string codec_list_text(const std::vector<CodecLine>& lines) {
    TextTable table({{"codec", Align::left},
                     {"bits a number", Align::right},
                     {"page bytes", Align::right},
                     {"of raw16", Align::right},
                     {"id", Align::right},
                     {"given to", Align::left},
                     {"what", Align::left}});
    std::string last_summary;
    for (const CodecLine& line : lines) {
        const codec::CodecRow& row = codec::row_of(line.spec);
        const bool fits = line.refusal.empty();
        const double bits = fits ? codec::bits_per_element(line.spec, line.geometry) : 0;
        std::string what = fits ? row.summary : "does not fit: " + line.refusal;
        if (fits && what == last_summary) what.clear();
        if (fits) last_summary = row.summary;
        table.row({codec::codec_name(line.spec), fits ? fmt::format("{:.3f}", bits) : "",
                   fits ? std::to_string(codec::page_bytes(line.spec, line.geometry)) : "",
                   fits ? fmt::format("{:.1f} %", bits / 16 * 100) : "",
                   fmt::format("{:#010x}", line.spec.id()), takers_of(row), what});
    }
    std::string text = table.text() + "\n" + codec_list_legend() + "\n";
    for (const codec::CodecRow& row : codec::codec_table())
        text +=
            fmt::format("{}: {}; {}\n", row.pattern, fmt::join(words_for(row), ", "), isas_of(row));
    return text;
}

std::string codec_list_json(const std::vector<CodecLine>& lines) {
    Json out = Json::array();
    for (const CodecLine& line : lines) {
        const codec::CodecRow& row = codec::row_of(line.spec);
        Json one = {{"codec", codec::codec_name(line.spec)},
                    {"id", line.spec.id()},
                    {"version", line.spec.version},
                    {"family", row.folder},
                    {"summary", row.summary},
                    {"unit", row.unit == codec::Unit::token ? "token" : "tile"},
                    {"random_access", row.can.random_access},
                    {"fused", row.can.fused},
                    {"lossless", row.can.lossless},
                    {"needs_calibration", row.can.needs_calibration},
                    {"given_to", takers_of(row)},
                    {"fits", line.refusal.empty()}};
        if (line.refusal.empty()) {
            one["bits_per_element"] = codec::bits_per_element(line.spec, line.geometry);
            one["page_bytes"] = codec::page_bytes(line.spec, line.geometry);
        } else {
            one["refusal"] = line.refusal;
        }
        out.push_back(std::move(one));
    }
    return dump({{"codecs", std::move(out)}});
}

std::string codec_bench_text(const CodecBenchResult& result) {
    TextTable table({{"codec", Align::left},
                     {"bits", Align::right},
                     {"ISA", Align::left},
                     {"encode GB/s", Align::right},
                     {"of memcpy", Align::right},
                     {"decode GB/s", Align::right},
                     {"of memcpy", Align::right}});
    for (const bench::CodecSpeed& s : result.speeds)
        table.row({s.codec, fmt::format("{:.2f}", s.bits_per_element), s.isa,
                   fmt::format("{:.3f}", s.encode * 1e-9), fmt::format("{:.3f}", s.encode_share),
                   fmt::format("{:.3f}", s.decode * 1e-9), fmt::format("{:.3f}", s.decode_share)});
    std::string text = fmt::format(
        "one core, head_dim {}, blocks of {} tokens; GB/s of the 16-bit numbers that a page "
        "stands for\n\n{}",
        result.geometry.head_dim, result.geometry.block_tokens, table.text());
    if (!result.bars.empty()) text += "\n" + bench::bar_table(result.bars);
    return text;
}

std::string codec_bench_json(const CodecBenchResult& result) {
    Json speeds = Json::array();
    for (const bench::CodecSpeed& s : result.speeds)
        speeds.push_back({{"codec", s.codec},
                          {"bits_per_element", s.bits_per_element},
                          {"isa", s.isa},
                          {"memcpy_bytes_per_s", s.copy},
                          {"encode_bytes_per_s", s.encode},
                          {"encode_share", s.encode_share},
                          {"decode_bytes_per_s", s.decode},
                          {"decode_share", s.decode_share}});
    Json bars = Json::array();
    for (const bench::BarRow& row : result.bars)
        bars.push_back({{"what", row.what},
                        {"ratio", row.ratio.value_or(0)},
                        {"bar", row.bar.value_or(0)},
                        {"ok", row.ok}});
    return dump({{"head_dim", result.geometry.head_dim},
                 {"block_tokens", result.geometry.block_tokens},
                 {"ok", bench::all_ok(result.bars)},
                 {"speeds", std::move(speeds)},
                 {"bars", std::move(bars)}});
}

std::string codec_verify_text(const std::vector<CodecCheck>& checks) {
    std::string text;
    for (const CodecCheck& check : checks)
        if (!check.problem.empty())
            text += fmt::format("{} head_dim {} {}: {}\n", check.codec, check.head_dim, check.isa,
                                check.problem);
    return text + fmt::format("{} checked, {} differ\n", checks.size(), problems(checks));
}

std::string codec_verify_json(const std::vector<CodecCheck>& checks) {
    Json out = Json::array();
    for (const CodecCheck& check : checks)
        out.push_back({{"codec", check.codec},
                       {"head_dim", check.head_dim},
                       {"isa", check.isa},
                       {"ok", check.problem.empty()},
                       {"problem", check.problem}});
    return dump({{"ok", problems(checks) == 0}, {"checks", std::move(out)}});
}

}  // namespace quire::commands
