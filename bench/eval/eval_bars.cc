#include "bench/eval/eval_bars.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire::bench {
namespace {

struct Pair {
    const char* ours;  // null: the schedule of `bits`
    double bits;       // at most
    const char* peer;
    double smollm2, gemma3;  // bars
};

constexpr Pair kPairs[] = {
    {"k8v8", 8.25, "fp8_e4m3_token:plain", 0.03, 0.06},
    {"k6v6", 6.25, "fp8_e4m3_token:plain", 0.2, 0.7},
    {"k8v8", 8.5, "q8_0:rotated", 0.7, 0.7},
    {nullptr, 5.95, "fp8_e4m3_token:plain", 0.09, 0.55},
    {nullptr, 4.95, "kivi4", 0.18, 0.6},
    {nullptr, 4.5, "q4_0:rotated", 0.25, 0.15},
    {nullptr, 4.2, "turboquant_4bit_nc", 0.28, 0.17},
    {nullptr, 3.35, "turboquant_3bit_nc", 0.25, 0.075},
    {nullptr, 2.65, "kivi2", 0.12, 0.25},
};

const EvalRow* find(const std::vector<EvalRow>& rows, const std::string& name) {
    const auto at = std::find_if(rows.begin(), rows.end(),
                                 [&](const EvalRow& row) { return row.name == name; });
    return at == rows.end() ? nullptr : &*at;
}

}  // namespace

std::string schedule_name(double bits) {
    return fmt::format("auto:{}", bits);
}

std::vector<double> eval_bar_bits() {
    std::vector<double> bits;
    for (const Pair& pair : kPairs)
        if (pair.ours == nullptr) bits.push_back(pair.bits);
    return bits;
}

std::vector<BarRow> eval_bars(const BenchModel& model, const std::vector<EvalRow>& rows) {
    std::vector<BarRow> bars;
    for (const Pair& pair : kPairs) {
        const std::string name = pair.ours != nullptr ? pair.ours : schedule_name(pair.bits);
        const EvalRow* ours = find(rows, name);
        const EvalRow* peer = find(rows, pair.peer);
        if (ours == nullptr || peer == nullptr) continue;
        const std::string what = fmt::format("{}: KL of {} ({:.3f} bits) over {} ({:.3f})",
                                             model.name, name, ours->bits, pair.peer, peer->bits);
        if (!model.smollm2() && !model.gemma3()) {
            bars.push_back(info_row(what, "nats", ours->divergence.mean, peer->divergence.mean));
            continue;
        }
        bars.push_back(ratio_row(what, "nats", ours->divergence.mean, peer->divergence.mean,
                                 Comparison::at_most,
                                 model.smollm2() ? pair.smollm2 : pair.gemma3));
        if (ours->bits > pair.bits) bars.back().ok = false;
    }
    return bars;
}

}  // namespace quire::bench
