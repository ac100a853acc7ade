#include "engine/model/schedule_file.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config_yaml.h"
#include "base/regular_file.h"

namespace quire {
namespace {

constexpr uint32_t kWidthMin = 2, kWidthMax = 8;
constexpr uint64_t kScheduleBytesMax = uint64_t{1} << 20;

Error no_schedule(const std::string& why) {
    return make_error(Code::invalid, why + "; `quire eval --schedule BITS --save-schedule FILE` "
                                           "writes a sound one");
}

std::optional<uint32_t> whole_number(std::string_view text) {
    uint32_t number = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || at != end || text.empty()) return std::nullopt;
    return number;
}

Result<codec::LayerBits> read_widths(const YamlRow& row, size_t layer) {
    codec::LayerBits bits;
    bool has_k = false, has_v = false;
    for (const YamlEntry& field : row.fields) {
        if (field.key != "k" && field.key != "v")
            return no_schedule(fmt::format("line {}: layer {} has '{}'; a layer has k and v",
                                           row.line, layer, field.key));
        const auto width = whole_number(field.value);
        if (field.is_list || !width || *width < kWidthMin || *width > kWidthMax)
            return no_schedule(fmt::format("line {}: layer {} has {}: {}; a width is {} to {} bits",
                                           row.line, layer, field.key, field.value, kWidthMin,
                                           kWidthMax));
        (field.key == "k" ? bits.k : bits.v) = static_cast<uint8_t>(*width);
        (field.key == "k" ? has_k : has_v) = true;
    }
    if (!has_k || !has_v)
        return no_schedule(fmt::format("line {}: layer {} lacks {}", row.line, layer,
                                       has_k ? "v" : "k"));
    return bits;
}

Status read_skipped(const YamlEntry& entry, size_t layers, LayerSchedule* schedule) {
    for (size_t at = 0; at < entry.value.size();) {
        const size_t comma = std::min(entry.value.find(',', at), entry.value.size());
        const std::string text = entry.value.substr(at, comma - at);
        const auto layer = whole_number(text);
        if (!layer || *layer >= layers)
            return no_schedule(fmt::format("line {}: skip_layers has {}; this model has layers 0 "
                                           "to {}",
                                           entry.line, text, layers - 1));
        schedule->skip_layers.push_back(*layer);
        at = comma + 1;
    }
    auto& skipped = schedule->skip_layers;
    std::ranges::sort(skipped);
    skipped.erase(std::ranges::unique(skipped).begin(), skipped.end());
    if (skipped.size() == layers)
        return no_schedule(fmt::format("line {}: skip_layers leaves no layer to be coded",
                                       entry.line));
    return {};
}

}  // namespace

std::string schedule_yaml(const LayerSchedule& schedule) {
    std::string out = "layers:\n";
    for (size_t l = 0; l < schedule.bits.size(); ++l)
        out += fmt::format("  - {{k: {}, v: {}}}  # {}\n", schedule.bits[l].k, schedule.bits[l].v,
                           l);
    if (!schedule.skip_layers.empty())
        out += fmt::format("skip_layers: [{}]\n", fmt::join(schedule.skip_layers, ", "));
    return out;
}

Result<LayerSchedule> parse_schedule(const std::string& yaml, std::optional<size_t> layers) {
    const auto document = read_yaml_document(yaml);
    if (!document.ok()) return no_schedule(document.error().message);
    LayerSchedule schedule;
    for (const YamlTable& table : document->tables) {
        if (table.key != "layers")
            return no_schedule(fmt::format("line {}: '{}' is no part of it", table.line,
                                           table.key));
        if (layers && table.rows.size() != *layers)
            return no_schedule(fmt::format("it has {} layers and the model {}", table.rows.size(),
                                           *layers));
        for (const YamlRow& row : table.rows) {
            const auto bits = read_widths(row, schedule.bits.size());
            if (!bits.ok()) return bits.error();
            schedule.bits.push_back(*bits);
        }
    }
    for (const YamlEntry& entry : document->entries) {
        if (entry.key != "skip_layers" || !entry.is_list)
            return no_schedule(fmt::format("line {}: '{}' is no list that belongs to it",
                                           entry.line, entry.key));
        QUIRE_TRY(read_skipped(entry, layers.value_or(schedule.bits.size()), &schedule));
    }
    if (schedule.bits.empty())
        return no_schedule("it has no list 'layers' of lines such as - {k: 6, v: 4}");
    return schedule;
}

Result<LayerSchedule> read_schedule(const std::string& path, std::optional<size_t> layers) {
    auto text = read_regular_file(path, "the schedule", kScheduleBytesMax);
    if (!text.ok()) return text.error();
    auto schedule = parse_schedule(*text, layers);
    if (!schedule.ok())
        return make_error(schedule.code(), "the schedule " + path + ": " +
                                               schedule.error().message);
    return schedule;
}

}  // namespace quire
