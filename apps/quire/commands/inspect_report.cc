#include "apps/quire/commands/inspect_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "codec/codec_table.h"
#include "format/slab.h"
#include "tier/packed/slab_packing.h"

namespace quire::commands {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kModelsMax = 20;  // of each list, in text

using codec::codec_name_of_id;

std::vector<std::string> names_of(const std::set<uint32_t>& codecs) {
    std::vector<std::string> names;
    for (const uint32_t id : codecs) names.push_back(codec_name_of_id(id));
    return names;
}

std::string blocks(uint64_t count) {
    return fmt::format("{} block{}", count, count == 1 ? "" : "s");
}

template <typename Map, typename Name>
std::string list_text(std::string_view title, const Map& counts, Name name) {
    std::string text;
    size_t shown = 0;
    for (const auto& [key, count] : counts) {
        if (++shown > kModelsMax) {
            text += fmt::format("  {:<12}and {} more\n", "", counts.size() - kModelsMax);
            break;
        }
        text += fmt::format("  {:<12}{}: {}\n", shown == 1 ? title : "", name(key), blocks(count));
    }
    return text;
}

}  // namespace

std::string inspect_text(const InspectResult& result) {
    const DiskReport& r = result.report;
    std::string text = fmt::format("{}\n", result.dir);
    text += fmt::format("  {:<12}version {}\n", "format", r.format_version);
    text += fmt::format("  {:<12}{}, {} in all files\n", "segments", r.segments,
                        format_bytes(r.file_bytes));
    text += fmt::format("  {:<12}{}, {}, from {} index records\n", "blocks", r.blocks,
                        format_bytes(r.block_bytes), r.index_records);
    text += list_text("models", r.blocks_by_model, [&](const std::string& id) {
        return fmt::format("{} in {}", id, fmt::join(names_of(r.codecs_by_model.at(id)), ", "));
    });
    text += list_text("tenants", r.blocks_by_tenant, [](const std::string& name) {
        return name.empty() ? std::string("(no tenant)") : name;
    });
    text += list_text("codecs", r.blocks_by_codec, codec_name_of_id);
    text += list_text("packing", r.blocks_by_packing, packing_name);
    text += list_text("tokens", r.blocks_by_tokens,
                      [](uint32_t tokens) { return fmt::format("{} a block", tokens); });
    text += fmt::format("  {:<12}{}\n", "verified",
                        result.verified ? blocks(r.verified_blocks) + ", every byte"
                                        : "headers only; --verify reads every byte");
    if (!result.damaged()) return text + fmt::format("  {:<12}none\n", "damage");
    text += fmt::format("  {:<12}{} damaged, {} lost; they are misses, never wrong answers\n",
                        "damage", blocks(r.damaged_blocks), r.lost_blocks);
    for (const DiskDamage& damage : r.damage)
        text += fmt::format("    {}: {}\n", damage.file, damage.what);
    text +=
        "  A lost or damaged index is written anew by: quire inspect --repair DIR. Damaged blocks\n"
        "  are dropped when they are read.\n";
    return text;
}

std::string inspect_json(const InspectResult& result) {
    const DiskReport& r = result.report;
    Json codecs = Json::object();
    for (const auto& [codec, count] : r.blocks_by_codec) codecs[codec_name_of_id(codec)] = count;
    Json packing = Json::object();
    for (const auto& [id, count] : r.blocks_by_packing) packing[packing_name(id)] = count;
    Json tokens = Json::object();
    for (const auto& [count, found] : r.blocks_by_tokens) tokens[std::to_string(count)] = found;
    Json model_codecs = Json::object();
    for (const auto& [id, found] : r.codecs_by_model) model_codecs[id] = names_of(found);
    Json damage = Json::array();
    for (const DiskDamage& one : r.damage)
        damage.push_back({{"file", one.file}, {"what", one.what}});
    const Json out = {{"dir", result.dir},
                      {"format_version", r.format_version},
                      {"segments", r.segments},
                      {"file_bytes", r.file_bytes},
                      {"blocks", r.blocks},
                      {"block_bytes", r.block_bytes},
                      {"index_records", r.index_records},
                      {"models", r.blocks_by_model},
                      {"model_codecs", model_codecs},
                      {"tenants", r.blocks_by_tenant},
                      {"codecs", codecs},
                      {"packing", packing},
                      {"block_tokens", tokens},
                      {"verified", result.verified},
                      {"verified_blocks", r.verified_blocks},
                      {"damaged_blocks", r.damaged_blocks},
                      {"lost_blocks", r.lost_blocks},
                      {"damage", damage},
                      {"ok", !result.damaged()}};
    // Tenant names are whatever clients sent.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace quire::commands
