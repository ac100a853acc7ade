#include "bench/eval/eval_bars.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "bench/eval/crossing.h"
#include "bench/eval/ec_candidate.h"

namespace quire::bench {
namespace {

// ec in one part, foretold: others have curves of their own.
bool is_one_block(const std::string& name) {
    const auto bits = ec_bits(name);
    return bits && bits->more == 0 && !bits->alone;
}

constexpr std::string_view kSchedule = "auto:";

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

// A family of rows, and a peer whose divergence it is to have at so many bits at most.
struct Equal {
    const char* family;
    const char* peer;
    double smollm2, gemma3;
};
constexpr const char* kHot = "the hot family with schedules";
constexpr const char* kCold = "ec";
constexpr Equal kEquals[] = {
    {kHot, "nvfp4_4over6", 2.75, 2.7},
    {kCold, "fp8_e4m3_token:plain", 3.0, 3.15},
    {kCold, "nvfp4", 1.8, 1.65},
};

// What ec's divergence is to be over this peer's, at so many bits.
constexpr const char* kColdPeer = "q4_0:rotated";
struct ColdRatio {
    double bits, bar;
};
constexpr ColdRatio kColdSmollm2 = {2.1, 1.4}, kColdGemma3 = {1.8, 0.65};

const EvalRow* find(const std::vector<EvalRow>& rows, const std::string& name) {
    const auto at = std::find_if(rows.begin(), rows.end(),
                                 [&](const EvalRow& row) { return row.name == name; });
    return at == rows.end() ? nullptr : &*at;
}

// The measured rates of a family.
std::vector<Rate> rates_of(std::string_view family, const std::vector<EvalRow>& rows) {
    std::vector<Rate> rates;
    for (const EvalRow& row : rows)
        if (family == kCold ? is_one_block(row.name) : row.name.starts_with(kSchedule))
            rates.push_back({row.bits, row.divergence.mean});
    return rates;
}

BarRow not_bracketed(std::string what, std::string_view family, double bar) {
    BarRow row = value_row(std::move(what), "bits", NAN, Comparison::at_most, bar);
    row.note = fmt::format("the rates of {} that were judged do not bracket it: add some with {}",
                           family, family == kCold ? "--caches ec:BITS" : "--schedule BITS");
    return row;
}

bool is_known(const BenchModel& model) {
    return model.smollm2() || model.gemma3();
}

void add_equals(const BenchModel& model, const std::vector<EvalRow>& rows,
                std::vector<BarRow>* bars) {
    for (const Equal& equal : kEquals) {
        const std::vector<Rate> rates = rates_of(equal.family, rows);
        const EvalRow* peer = find(rows, equal.peer);
        if (peer == nullptr || rates.size() < 2) continue;
        const std::string what =
            fmt::format("{}: bits at which the KL of {} equals that of {} ({:.3f} bits)",
                        model.name, equal.family, equal.peer, peer->bits);
        const double bar = model.smollm2() ? equal.smollm2 : equal.gemma3;
        const std::optional<double> bits = bits_at(rates, peer->divergence.mean);
        if (!is_known(model)) {
            if (bits) bars->push_back(info_row(what, "bits", *bits));
        } else if (bits) {
            bars->push_back(value_row(what, "bits", *bits, Comparison::at_most, bar));
        } else {
            bars->push_back(not_bracketed(what, equal.family, bar));
        }
    }
}

void add_cold_ratio(const BenchModel& model, const std::vector<EvalRow>& rows,
                    std::vector<BarRow>* bars) {
    const std::vector<Rate> rates = rates_of(kCold, rows);
    const EvalRow* peer = find(rows, kColdPeer);
    if (!is_known(model) || peer == nullptr || rates.size() < 2) return;
    const ColdRatio& wanted = model.smollm2() ? kColdSmollm2 : kColdGemma3;
    const std::string what = fmt::format("{}: KL of ec at {} bits over {} ({:.3f})", model.name,
                                         wanted.bits, kColdPeer, peer->bits);
    const std::optional<double> own = divergence_at(rates, wanted.bits);
    bars->push_back(
        own ? ratio_row(what, "nats", *own, peer->divergence.mean, Comparison::at_most, wanted.bar)
            : not_bracketed(what, kCold, wanted.bar));
}

}  // namespace

std::string schedule_name(double bits) {
    return fmt::format("{}{}", kSchedule, bits);
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
        if (!is_known(model)) {
            bars.push_back(info_row(what, "nats", ours->divergence.mean, peer->divergence.mean));
            continue;
        }
        bars.push_back(ratio_row(what, "nats", ours->divergence.mean, peer->divergence.mean,
                                 Comparison::at_most,
                                 model.smollm2() ? pair.smollm2 : pair.gemma3));
        if (ours->bits > pair.bits) bars.back().ok = false;
    }
    add_equals(model, rows, &bars);
    add_cold_ratio(model, rows, &bars);
    return bars;
}

}  // namespace quire::bench
