#include "apps/quire/commands/eval_details.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "engine/model/schedule_file.h"

namespace quire::commands {
namespace {

using bench::EvalRow;
using Json = nlohmann::ordered_json;

double mean(const std::vector<double>& errors) {
    return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
}

size_t worst_layer(const std::vector<double>& errors) {
    return static_cast<size_t>(std::max_element(errors.begin(), errors.end()) - errors.begin());
}

int64_t count(const std::vector<bool>& found) {
    return std::count(found.begin(), found.end(), true);
}

bool has_layers(const EvalReport& report) {
    return !report.rows.empty() && !report.rows.front().layer_errors.empty();
}

std::string step(const std::optional<uint32_t>& at) {
    return at ? std::to_string(*at) : "none";
}

// Names that the table's columns need.
std::string legend(const EvalReport& report) {
    std::string out;
    if (has_layers(report))
        out += "Attention: RMS error of its output, relative to that of the 16-bit cache.\n";
    if (report.greedy.prompts > 0)
        out += fmt::format(
            "Greedy: first token that is not the 16-bit cache's, of up to {} after each of {} "
            "prompts of {}.\n",
            report.greedy.tokens, report.greedy.prompts, report.greedy.prompt_tokens);
    if (report.keys.keys > 0)
        out += fmt::format(
            "Keys: answered exactly, of those planted in {} tokens each (seed {}); the 16-bit "
            "cache: "
            "{}/{}.\n",
            report.keys.tokens, report.keys.seed, count(report.keys_by_16_bit),
            report.keys_by_16_bit.size());
    return out;
}

// schedule_yaml() in fewer lines.
std::string flow_yaml(const LayerSchedule& schedule) {
    constexpr size_t kLayersOfALine = 6;
    std::string out = "layers: [";
    for (size_t l = 0; l < schedule.bits.size(); ++l)
        out += fmt::format("{}{{k: {}, v: {}}},", l % kLayersOfALine == 0 ? "\n  " : " ",
                           schedule.bits[l].k, schedule.bits[l].v);
    out += "\n]\n";
    if (!schedule.skip_layers.empty())
        out += fmt::format("skip_layers: [{}]\n", fmt::join(schedule.skip_layers, ", "));
    return out;
}

Json json_step(const std::optional<uint32_t>& at) {
    return at ? Json(*at) : Json(nullptr);
}

}  // namespace

std::string eval_details_text(const EvalReport& report) {
    const bool layers = has_layers(report);
    const bool greedy = report.greedy.prompts > 0;
    const bool keys = report.keys.keys > 0;
    if (!layers && !greedy && !keys) return "";
    std::vector<TextTable::Column> columns = {{"cache", Align::left}};
    const auto add = [&](bool wanted, std::initializer_list<const char*> titles) {
        for (const char* title : titles)
            if (wanted) columns.push_back({title, Align::right});
    };
    add(layers, {"attention, mean layer", "worst", "which"});
    add(greedy, {"greedy, median", "earliest"});
    add(keys, {"keys"});
    TextTable table(std::move(columns));
    for (const EvalRow& row : by_bits(report.rows)) {
        std::vector<std::string> cells = {row.name};
        if (layers) {
            const size_t worst = worst_layer(row.layer_errors);
            cells.push_back(fmt::format("{:.3f} %", 100 * mean(row.layer_errors)));
            cells.push_back(fmt::format("{:.3f} %", 100 * row.layer_errors[worst]));
            cells.push_back(std::to_string(worst));
        }
        if (greedy) {
            cells.push_back(step(row.greedy.median()));
            cells.push_back(step(row.greedy.earliest()));
        }
        if (keys) cells.push_back(fmt::format("{}/{}", count(row.keys), row.keys.size()));
        table.row(std::move(cells));
    }
    return "\n" + legend(report) + "\n" + table.text();
}

std::string eval_schedules_text(const EvalReport& report) {
    std::string out;
    for (const EvalRow& row : by_bits(report.rows)) {
        if (!row.schedule) continue;
        if (out.empty())
            out = "\nSchedules, for --schedule-file and `quire serve --kv-codec schedule "
                  "--kv-schedule FILE`:\n";
        out += fmt::format("\n# {}: {:.3f} bits\n{}", row.name, row.bits, flow_yaml(*row.schedule));
    }
    return out;
}

Json eval_details_json(const EvalRow& row) {
    Json out = Json::object();
    if (row.schedule) out["schedule"] = schedule_yaml(*row.schedule);
    if (!row.layer_errors.empty()) {
        const size_t worst = worst_layer(row.layer_errors);
        out["attention_error"] = {{"mean", mean(row.layer_errors)},
                                  {"worst", row.layer_errors[worst]},
                                  {"worst_layer", worst},
                                  {"layers", row.layer_errors}};
    }
    if (!row.greedy.prompts.empty()) {
        Json prompts = Json::array();
        for (const bench::GreedyPrompt& p : row.greedy.prompts)
            prompts.push_back({{"same", p.same}, {"tokens", p.tokens}});
        out["greedy"] = {{"median", json_step(row.greedy.median())},
                         {"earliest", json_step(row.greedy.earliest())},
                         {"prompts", prompts}};
    }
    if (!row.keys.empty())
        out["keys"] = {
            {"found", count(row.keys)}, {"asked", row.keys.size()}, {"by_depth", row.keys}};
    return out;
}

Json eval_details_json(const EvalReport& report) {
    Json out = Json::object();
    if (report.greedy.prompts > 0)
        out["greedy"] = {{"prompts", report.greedy.prompts},
                         {"prompt_tokens", report.greedy.prompt_tokens},
                         {"tokens", report.greedy.tokens}};
    if (report.keys.keys > 0)
        out["keys"] = {{"asked", report.keys_by_16_bit.size()},
                       {"tokens", report.keys.tokens},
                       {"seed", report.keys.seed},
                       {"depths", report.key_depths},
                       {"found_by_16_bit", count(report.keys_by_16_bit)},
                       {"by_depth", report.keys_by_16_bit}};
    return out;
}

}  // namespace quire::commands
