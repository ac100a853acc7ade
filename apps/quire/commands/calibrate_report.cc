#include "apps/quire/commands/calibrate_report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/table.h"

namespace quire::commands {
namespace {

// The sidecars that docs/codecs.md judges are learned from as many or more.
constexpr uint32_t kColdTokens = 2048;

// Length of the vectors of a layer's KV heads, root mean square over heads.
double length(const codec::Sidecar& s, const std::vector<float>& vectors, uint32_t layer) {
    const codec::SidecarLayer& shape = s.layers[layer];
    const size_t at = codec::vector_offset(s, layer, 0);
    double sum = 0;
    for (size_t i = 0; i < size_t{shape.kv_heads} * shape.head_dim; ++i)
        sum += double{vectors[at + i]} * double{vectors[at + i]};
    return std::sqrt(sum / shape.kv_heads);
}

std::string kind_of(const codec::SidecarLayer& layer) {
    if (layer.kind == KvKind::window) return fmt::format("window {}", layer.window_tokens);
    return "full";
}

std::string key_pairs_text(const CalibrateReport& report) {
    std::string text = fmt::format(
        "Keys lose the mean before RoPE in {} pairs of each head's dimensions, and the mean after "
        "it in the others.\n",
        *report.sidecar->key_pairs);
    if (report.key_forms.empty()) return text;
    text += "The energy that is then left to be coded, by pairs:";
    for (const bench::KeyForm& form : report.key_forms)
        text += fmt::format("{} {}: {:.3f}", &form == report.key_forms.data() ? "" : ",",
                            form.pairs, form.energy);
    return text + "; the fewest within a fifth of a bit of the best are taken.\n";
}

}  // namespace

std::string calibrate_text(const CalibrateReport& report) {
    const codec::Sidecar& s = *report.sidecar;
    std::vector<TextTable::Column> columns = {
        {"layer", Align::right},    {"attention", Align::left},    {"heads x dim", Align::right},
        {"|mean K|", Align::right}, {"before RoPE", Align::right}, {"|mean V|", Align::right}};
    if (!s.sensitivity.empty())
        columns.insert(columns.end(), {{"sensitivity K", Align::right}, {"V", Align::right}});
    if (!s.bits.empty())
        columns.insert(columns.end(), {{"bits K", Align::right}, {"V", Align::right}});
    TextTable table(columns);
    for (uint32_t l = 0; l < s.layers.size(); ++l) {
        std::vector<std::string> row = {
            std::to_string(l),
            kind_of(s.layers[l]),
            fmt::format("{} x {}", s.layers[l].kv_heads, s.layers[l].head_dim),
            fmt::format("{:.2f}", length(s, s.k_mean, l)),
            fmt::format("{:.2f}", length(s, s.k_mean_before, l)),
            fmt::format("{:.2f}", length(s, s.v_mean, l))};
        if (!s.sensitivity.empty())
            for (const float x : {s.sensitivity[l].k, s.sensitivity[l].v})
                row.push_back(fmt::format("{:.2e}", x));
        if (!s.bits.empty())
            for (const uint8_t width : {s.bits[l].k, s.bits[l].v})
                row.push_back(std::to_string(width));
        table.row(row);
    }
    std::string text = fmt::format("{}: learned from {} tokens\n\n{}\n", report.model,
                                   report.tokens, table.text());
    if (s.key_pairs) text += key_pairs_text(report);
    if (!s.bits.empty())
        text +=
            fmt::format("The schedule takes {:.3f} bits a number, scales included.\n", report.bits);
    if (report.tokens < kColdTokens)
        text += fmt::format(
            "Components and what foretells them want {} tokens and more: with fewer, ec takes more "
            "bits than asked for\nand loses more. Means and schedule need less.\n",
            kColdTokens);
    return text + fmt::format("Written to {}, hash {}.\n", report.path, report.hash.to_hex());
}

std::string calibrate_json(const CalibrateReport& report) {
    const codec::Sidecar& s = *report.sidecar;
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (uint32_t l = 0; l < s.layers.size(); ++l) {
        nlohmann::ordered_json layer = {{"attention", kind_of(s.layers[l])},
                                        {"kv_heads", s.layers[l].kv_heads},
                                        {"head_dim", s.layers[l].head_dim},
                                        {"k_mean", length(s, s.k_mean, l)},
                                        {"k_mean_before_rope", length(s, s.k_mean_before, l)},
                                        {"v_mean", length(s, s.v_mean, l)}};
        if (!s.sensitivity.empty()) {
            layer["k_sensitivity"] = s.sensitivity[l].k;
            layer["v_sensitivity"] = s.sensitivity[l].v;
        }
        if (!s.bits.empty()) {
            layer["k_bits"] = s.bits[l].k;
            layer["v_bits"] = s.bits[l].v;
        }
        layers.push_back(std::move(layer));
    }
    nlohmann::ordered_json forms = nlohmann::ordered_json::array();
    for (const bench::KeyForm& form : report.key_forms)
        forms.push_back({{"pairs", form.pairs}, {"energy", form.energy}});
    const nlohmann::ordered_json all = {
        {"model", report.model},         {"model_id", s.model.value.to_hex()},
        {"tokens", report.tokens},       {"path", report.path},
        {"hash", report.hash.to_hex()},  {"key_pairs", s.key_pairs.value_or(0)},
        {"key_forms", std::move(forms)}, {"bits", report.bits},
        {"layers", std::move(layers)}};
    return all.dump(2) + "\n";
}

}  // namespace quire::commands
