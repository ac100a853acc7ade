#include "codec/codec_names.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/edit_distance.h"
#include "codec/codec_table.h"
#include "codec/ec/rate.h"

namespace quire::codec {
namespace {

constexpr std::string_view kRaw = "raw16";
constexpr std::string_view kSchedule = "schedule";
constexpr std::string_view kNone = "none";
constexpr std::string_view kZstd = "zstd";
constexpr std::string_view kBx = "bx";
constexpr size_t kNamesSuggested = 3;

constexpr char kPackings[] =
    "a tier can pack with none, with zstd, with bx (pages of bf16), or with ec:BITS, BITS from 0.5 "
    "to 8, such as ec:2.7 (ec:2.7:alone: no layer foretold from another)";

// What may be given for pages: patterns, or every name.
std::string page_patterns() {
    std::string all = fmt::format("{}, {}", kRaw, kSchedule);
    for (const CodecRow& row : codec_table())
        if (row.folder != kRaw && uses_of(row).pages) all += fmt::format(", {}", row.pattern);
    return all;
}

std::string nearest_page_codecs(const std::string& wanted) {
    std::vector<std::pair<size_t, std::string>> all;
    const auto add = [&](std::string name) {
        const size_t distance = edit_distance(wanted, name);
        all.emplace_back(distance, std::move(name));
    };
    add(std::string(kSchedule));
    for (const CodecRow& row : codec_table())
        if (uses_of(row).pages)
            for (const CodecSpec& spec : row.specs()) add(row.name(spec));
    std::ranges::stable_sort(all, {}, &std::pair<size_t, std::string>::first);
    std::string text;
    for (size_t i = 0; i < std::min(kNamesSuggested, all.size()); ++i)
        text += (i == 0 ? "" : ", ") + all[i].second;
    return text;
}

bool names_packing(std::string_view name) {
    return name == kNone || name == kZstd || name == kBx || name.starts_with(ec::kEcPrefix);
}

}  // namespace

CodecUses uses_of(const CodecRow& row) {
    const bool read_by_attention = row.can.fused && row.unit == Unit::token && !row.can.lossless;
    return {.pages = row.folder == kRaw || read_by_attention, .packing = row.folder == kBx};
}

Status check_page_codec(const std::string& name) {
    if (name.empty() || name == kRaw || name == kSchedule) return {};
    if (names_packing(name))
        return make_error(
            Code::invalid,
            fmt::format("{} is of slabs at rest: --kv-codec-cold (on disk) and --kv-codec-host (in "
                        "memory) take it; a model can be served with {}",
                        name, page_patterns()));
    const auto spec = find_codec(name);
    if (!spec.ok())
        return make_error(Code::invalid,
                          fmt::format("there is no codec '{}'; nearest: {}; a model can be served "
                                      "with {}",
                                      name, nearest_page_codecs(name), page_patterns()));
    if (uses_of(row_of(*spec)).pages) return {};
    return make_error(Code::unsupported,
                      fmt::format("attention cannot read codec {0}, which quire eval --caches {0} "
                                  "judges; a model can be served with {1}",
                                  name, page_patterns()));
}

Status check_packing(const std::string& name) {
    if (name.empty() || name == kNone || name == kZstd || name == kBx || ec::ec_rate(name))
        return {};
    if (name == kSchedule || find_codec(name).ok()) {
        const bool pages = check_page_codec(name).ok();
        return make_error(Code::invalid,
                          fmt::format("{} is of pages, not of slabs at rest: {} takes it; {}", name,
                                      pages ? "--kv-codec" : "quire eval --caches", kPackings));
    }
    return make_error(Code::invalid, fmt::format("there is no packing '{}'; {}", name, kPackings));
}

}  // namespace quire::codec
