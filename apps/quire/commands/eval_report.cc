#include "apps/quire/commands/eval_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/eval_details.h"
#include "base/table.h"

namespace quire::commands {
namespace {

using bench::EvalRow;

std::string first_difference(const EvalRow& row) {
    const bench::Divergence& d = row.divergence;
    return d.first_difference == d.positions ? "none" : std::to_string(d.first_difference);
}

std::string label(const EvalRow& row, const bench::ExactTokens& exact) {
    if (row.noise_floor) return " (noise of 16 bits)";
    if (row.reference) return " (peer)";
    if (row.exact == exact) return "";
    return fmt::format(" (first {}, newest {} exact)", row.exact.sinks, row.exact.tail);
}

}  // namespace

std::vector<EvalRow> by_bits(std::vector<EvalRow> rows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const EvalRow& a, const EvalRow& b) { return a.bits > b.bits; });
    return rows;
}

std::string eval_text(const EvalReport& report) {
    std::string out = fmt::format(
        "{}: cache coded, {} tokens of {}, KL over the second half; 16 bit: the first {} tokens "
        "and the newest {}\n\n",
        report.model, report.tokens, report.text, report.exact.sinks, report.exact.tail);
    TextTable table({{"cache", Align::left},
                     {"bits", Align::right},
                     {"with sinks, tail", Align::right},
                     {"KL mean", Align::right},
                     {"median", Align::right},
                     {"p99", Align::right},
                     {"p99.9", Align::right},
                     {"max", Align::right},
                     {"top-1", Align::right},
                     {"perplexity ratio", Align::right},
                     {"first other token", Align::right}});
    for (const EvalRow& row : by_bits(report.rows)) {
        const bench::Divergence& d = row.divergence;
        table.row({row.name + label(row, report.exact), fmt::format("{:.3f}", row.bits),
                   fmt::format("{:.3f}", row.total_bits), fmt::format("{:.2e}", d.mean),
                   fmt::format("{:.2e}", d.median), fmt::format("{:.2e}", d.p99),
                   fmt::format("{:.2e}", d.p999), fmt::format("{:.2e}", d.max),
                   fmt::format("{:.2f} %", d.top1 * 100), fmt::format("{:.5f}", d.perplexity_ratio),
                   first_difference(row)});
    }
    out += table.text() + eval_details_text(report) + eval_schedules_text(report);
    const std::vector<std::string> below = peers_below(report.rows);
    const bool peers = std::ranges::any_of(report.rows, &EvalRow::reference);
    if (peers)
        out += below.empty() ? "\nNo peer lies below our frontier." : "\nPeers below our frontier:";
    for (const std::string& name : below) out += " " + name;
    out += "\n";
    return report.bars.empty() ? out : out + "\n" + bench::bar_table(report.bars);
}

std::string eval_json(const EvalReport& report) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const EvalRow& row : report.rows) {
        const bench::Divergence& d = row.divergence;
        rows.push_back({{"cache", row.name},
                        {"peer", row.reference},
                        {"noise_floor", row.noise_floor},
                        {"bits", row.bits},
                        {"total_bits", row.total_bits},
                        {"sink_tokens", row.exact.sinks},
                        {"tail_tokens", row.exact.tail},
                        {"kl_mean", d.mean},
                        {"kl_median", d.median},
                        {"kl_p99", d.p99},
                        {"kl_p999", d.p999},
                        {"kl_max", d.max},
                        {"top1", d.top1},
                        {"perplexity_ratio", d.perplexity_ratio},
                        {"first_difference", d.first_difference},
                        {"positions", d.positions}});
        rows.back().update(eval_details_json(row));
    }
    nlohmann::ordered_json bars = nlohmann::ordered_json::array();
    for (const bench::BarRow& row : report.bars) {
        bars.push_back({{"what", row.what}, {"measured", row.measured}, {"unit", row.unit}});
        if (row.reference) bars.back()["reference"] = *row.reference;
        if (row.ratio) bars.back()["ratio"] = *row.ratio;
        if (row.bar) bars.back()["bar"] = *row.bar;
        bars.back()["ok"] = row.ok;
    }
    nlohmann::ordered_json all = {{"model", report.model},
                                  {"text", report.text},
                                  {"tokens", report.tokens},
                                  {"sink_tokens", report.exact.sinks},
                                  {"tail_tokens", report.exact.tail},
                                  {"rows", rows},
                                  {"bars", bars},
                                  {"peers_below_frontier", peers_below(report.rows)}};
    all.update(eval_details_json(report));
    return all.dump(2) + "\n";
}

std::vector<std::string> peers_below(const std::vector<EvalRow>& rows) {
    std::vector<std::string> names;
    for (const EvalRow& peer : rows) {
        if (!peer.reference) continue;
        const bool beaten = std::any_of(rows.begin(), rows.end(), [&](const EvalRow& ours) {
            return !ours.reference && !ours.noise_floor && ours.bits <= peer.bits &&
                   ours.divergence.mean <= peer.divergence.mean;
        });
        if (!beaten) names.push_back(peer.name);
    }
    return names;
}

}  // namespace quire::commands
