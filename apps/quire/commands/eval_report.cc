#include "apps/quire/commands/eval_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/table.h"

namespace quire::commands {
namespace {

using bench::EvalRow;

std::vector<EvalRow> by_bits(std::vector<EvalRow> rows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const EvalRow& a, const EvalRow& b) { return a.bits > b.bits; });
    return rows;
}

std::string first_difference(const EvalRow& row) {
    const bench::Divergence& d = row.divergence;
    return d.first_difference == d.positions ? "none" : std::to_string(d.first_difference);
}

// A plot area of logarithmic divergence over bits.
class Plot {
 public:
    explicit Plot(const std::vector<EvalRow>& rows) {
        for (const EvalRow& row : rows) {
            top_bits_ = std::max(top_bits_, row.bits + 0.5);
            const double kl = std::max(row.divergence.mean, kFloor);
            high_ = std::max(high_, std::ceil(std::log10(kl)));
            low_ = std::min(low_, std::floor(std::log10(kl)));
        }
        high_ = std::max(high_, low_ + 1);
    }
    double x(double bits) const { return kLeft + bits / top_bits_ * kWidth; }
    double y(double kl) const {
        return kTop + (high_ - std::log10(std::max(kl, kFloor))) / (high_ - low_) * kHeight;
    }
    std::string axes() const {
        std::string s;
        for (double e = low_; e <= high_; ++e) {
            const double at = y(std::pow(10, e));
            s += fmt::format(
                "<path d=\"M{} {:.1f}h{}\" class=\"g\"/><text x=\"{}\" y=\"{:.1f}\" "
                "text-anchor=\"end\">1e{:.0f}</text>\n",
                kLeft, at, kWidth, kLeft - 8, at + 4, e);
        }
        for (int bits = 2; bits <= top_bits_; bits += 2)
            s += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                             x(bits), kTop + kHeight + 18, bits);
        return s;
    }

    static constexpr double kFloor = 1e-8;
    static constexpr int kLeft = 70, kTop = 40, kWidth = 640, kHeight = 400;

 private:
    double top_bits_ = 1;
    double low_ = 0;
    double high_ = -8;
};

}  // namespace

std::string eval_text(const EvalReport& report) {
    std::string out = fmt::format("{}: cache coded, {} tokens of {}, KL over the second half\n\n",
                                  report.model, report.tokens, report.text);
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
        table.row({row.name + (row.reference ? " (peer)" : ""), fmt::format("{:.3f}", row.bits),
                   fmt::format("{:.3f}", row.total_bits), fmt::format("{:.2e}", d.mean),
                   fmt::format("{:.2e}", d.median), fmt::format("{:.2e}", d.p99),
                   fmt::format("{:.2e}", d.p999), fmt::format("{:.2e}", d.max),
                   fmt::format("{:.2f} %", d.top1 * 100), fmt::format("{:.5f}", d.perplexity_ratio),
                   first_difference(row)});
    }
    out += table.text();
    const std::vector<std::string> below = peers_below(report.rows);
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
                        {"bits", row.bits},
                        {"total_bits", row.total_bits},
                        {"kl_mean", d.mean},
                        {"kl_median", d.median},
                        {"kl_p99", d.p99},
                        {"kl_p999", d.p999},
                        {"kl_max", d.max},
                        {"top1", d.top1},
                        {"perplexity_ratio", d.perplexity_ratio},
                        {"first_difference", d.first_difference},
                        {"positions", d.positions}});
    }
    nlohmann::ordered_json bars = nlohmann::ordered_json::array();
    for (const bench::BarRow& row : report.bars) {
        bars.push_back({{"what", row.what}, {"measured", row.measured}, {"unit", row.unit}});
        if (row.reference) bars.back()["reference"] = *row.reference;
        if (row.ratio) bars.back()["ratio"] = *row.ratio;
        if (row.bar) bars.back()["bar"] = *row.bar;
        bars.back()["ok"] = row.ok;
    }
    const nlohmann::ordered_json all = {{"model", report.model},
                                        {"text", report.text},
                                        {"tokens", report.tokens},
                                        {"rows", rows},
                                        {"bars", bars},
                                        {"peers_below_frontier", peers_below(report.rows)}};
    return all.dump(2) + "\n";
}

std::string eval_svg(const EvalReport& report) {
    const Plot plot(report.rows);
    std::string s =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 500\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\">\n<style>.g{stroke:#ddd;fill:none}.o{fill:#1769aa}.p{fill:none;stroke:#"
        "b3261e;"
        "stroke-width:1.5}</style>\n<rect width=\"860\" height=\"500\" fill=\"#fff\"/>\n";
    s += fmt::format(
        "<text x=\"70\" y=\"24\" font-size=\"15\">{}: KL divergence to the 16-bit cache "
        "over bits a number</text>\n",
        report.model);
    s += plot.axes();
    for (const EvalRow& row : report.rows) {
        const double x = plot.x(row.bits);
        const double y = plot.y(row.divergence.mean);
        s += row.reference
                 ? fmt::format("<path class=\"p\" d=\"M{:.1f} {:.1f}l8 8m0 -8l-8 8\"/>", x - 4,
                               y - 4)
                 : fmt::format("<circle class=\"o\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", x, y);
        s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 7, y + 4, row.name);
    }
    return s + "</svg>\n";
}

std::vector<std::string> peers_below(const std::vector<EvalRow>& rows) {
    std::vector<std::string> names;
    for (const EvalRow& peer : rows) {
        if (!peer.reference) continue;
        const bool beaten = std::any_of(rows.begin(), rows.end(), [&](const EvalRow& ours) {
            return !ours.reference && ours.bits <= peer.bits &&
                   ours.divergence.mean <= peer.divergence.mean;
        });
        if (!beaten) names.push_back(peer.name);
    }
    return names;
}

}  // namespace quire::commands
