#include "bench/eval/schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "bench/eval/skipping.h"
#include "engine/model/joined_widths.h"

namespace quire::bench {
namespace {

constexpr uint8_t kMinBits = 2;
constexpr uint8_t kMaxBits = 8;

// Widths as codecs: K and V of a layer by their own.
class Scheduled final : public Candidate {
 public:
    Scheduled(std::string name, Schedule schedule)
        : name_(std::move(name)), schedule_(std::move(schedule)) {
        for (size_t l = 0; l < schedule_.k_bits.size(); ++l) {
            auto codec =
                codec_candidate(fmt::format("k{}v{}", schedule_.k_bits[l], schedule_.v_bits[l]));
            QUIRE_CHECK(codec.ok(), "a schedule holds widths of the hot family");
            layers_.push_back(std::move(codec).value());
        }
    }
    std::string name() const override { return name_ + skipped_suffix(schedule_.skip_layers); }
    double bits(uint32_t head_dim) const override { return schedule_.bits(head_dim); }
    std::optional<LayerSchedule> schedule() const override { return schedule_.by_layer(); }
    void apply(const KvSpan& span) const override {
        if (!schedule_.skips(span.layer)) layers_[span.layer]->apply(span);
    }

 private:
    std::string name_;
    Schedule schedule_;
    std::vector<std::unique_ptr<Candidate>> layers_;
};

// One side of one layer coded, all else exact.
class Probe final : public Candidate {
 public:
    Probe(uint32_t layer, bool keys, const Candidate& codec)
        : layer_(layer), keys_(keys), codec_(codec) {}
    std::string name() const override {
        return fmt::format("layer {} {}", layer_, keys_ ? "K" : "V");
    }
    double bits(uint32_t) const override { return 16; }
    void apply(const KvSpan& span) const override {
        if (span.layer != layer_) return;
        const size_t n = size_t{span.tokens} * span.head_dim;
        float* kept = keys_ ? span.v : span.k;
        const std::vector<float> exact(kept, kept + n);
        codec_.apply(span);
        std::copy(exact.begin(), exact.end(), kept);
    }

 private:
    uint32_t layer_;
    bool keys_;
    const Candidate& codec_;
};

EvalOptions probe_options(const EvalOptions& options) {
    EvalOptions own = options;
    own.tokens = static_cast<uint32_t>(options.calibration.size() - 1);
    own.layer_errors = false;
    return own;
}

uint32_t probes_at_once(const GgufModel& model, const EvalOptions& options) {
    const uint64_t cache = options.tokens * uint64_t{model.kv_layout(16).bytes_per_token()};
    return static_cast<uint32_t>(std::max<uint64_t>(1, kProbeMemoryBytes / cache));
}

}  // namespace

double Schedule::coded_bits(uint32_t head_dim) const {
    double sum = 0, sides = 0;
    for (size_t l = 0; l < k_bits.size(); ++l) {
        if (skips(l)) continue;
        sum += k_bits[l] + v_bits[l];
        sides += 2;
    }
    return sides > 0 ? sum / sides + 8.0 / head_dim : 16;
}

double Schedule::bits(uint32_t head_dim) const {
    const auto layers = static_cast<double>(k_bits.size());
    const auto exact = static_cast<double>(skip_layers.size());
    return (coded_bits(head_dim) * (layers - exact) + 16 * exact) / layers;
}

bool Schedule::skips(size_t layer) const {
    return std::ranges::find(skip_layers, layer) != skip_layers.end();
}

LayerSchedule Schedule::by_layer() const {
    LayerSchedule out{{}, skip_layers};
    for (size_t l = 0; l < k_bits.size(); ++l) out.bits.push_back({k_bits[l], v_bits[l]});
    return out;
}

Schedule Schedule::of(const LayerSchedule& schedule) {
    Schedule out{{}, {}, schedule.skip_layers};
    for (const codec::LayerBits& bits : schedule.bits) {
        out.k_bits.push_back(bits.k);
        out.v_bits.push_back(bits.v);
    }
    return out;
}

Schedule Schedule::of(const codec::Sidecar& sidecar) {
    return of(LayerSchedule{sidecar.bits});
}

void Schedule::store(codec::Sidecar* sidecar) const {
    sidecar->bits.clear();
    for (size_t l = 0; l < k_bits.size(); ++l) sidecar->bits.push_back({k_bits[l], v_bits[l]});
}

Sensitivity Sensitivity::of(const codec::Sidecar& sidecar) {
    Sensitivity s;
    for (const codec::LayerSensitivity& layer : sidecar.sensitivity) {
        s.k.push_back(double{layer.k});
        s.v.push_back(double{layer.v});
    }
    return s;
}

void Sensitivity::store(codec::Sidecar* sidecar) const {
    sidecar->sensitivity.clear();
    for (size_t l = 0; l < k.size(); ++l)
        sidecar->sensitivity.push_back({static_cast<float>(k[l]), static_cast<float>(v[l])});
}

Result<Sensitivity> measure_sensitivity(const GgufModel& model, const EvalOptions& options) {
    const auto layers = static_cast<uint32_t>(model.hparams().n_layers);
    auto codec = codec_candidate(fmt::format("k{}v{}", kProbeBits, kProbeBits));
    if (!codec.ok()) return codec.error();
    const EvalOptions own = probe_options(options);
    const uint32_t at_once = probes_at_once(model, own);
    auto means = eval_means(model, own);
    if (!means.ok()) return means.error();
    std::vector<double> all;
    for (uint32_t first = 0; first < 2 * layers; first += at_once) {
        std::vector<std::unique_ptr<Candidate>> probes;
        for (uint32_t i = first; i < std::min(first + at_once, 2 * layers); ++i)
            probes.push_back(std::make_unique<Probe>(i % layers, i < layers, **codec));
        auto rows = evaluate(model, options.calibration, probes, *means, own);
        if (!rows.ok()) return rows.error();
        for (const EvalRow& row : *rows)
            all.push_back(row.divergence.mean * std::pow(4, kProbeBits));
    }
    const auto middle = all.begin() + layers;
    return Sensitivity{{all.begin(), middle}, {middle, all.end()}};
}

uint64_t sensitivity_tokens(const GgufModel& model, const EvalOptions& options) {
    const auto probes = static_cast<uint32_t>(2 * model.hparams().n_layers);
    const EvalOptions own = probe_options(options);
    const uint32_t at_once = probes_at_once(model, own);
    uint64_t tokens = means_tokens(own);
    for (uint32_t first = 0; first < probes; first += at_once)
        tokens += judged_tokens(std::min(at_once, probes - first), own);
    return tokens;
}

Schedule allocate(const Sensitivity& s, double bits, uint32_t head_dim) {
    const size_t layers = s.k.size();
    Schedule out{std::vector<uint8_t>(layers, kMinBits), std::vector<uint8_t>(layers, kMinBits)};
    const auto budget = static_cast<int64_t>(
        std::floor((bits - 8.0 / head_dim) * static_cast<double>(2 * layers) + 1e-9));
    auto spent = static_cast<int64_t>(2 * layers * kMinBits);
    for (; spent < budget; ++spent) {
        uint8_t* best = nullptr;
        double best_gain = 0;
        for (size_t i = 0; i < 2 * layers; ++i) {
            uint8_t& width = i < layers ? out.k_bits[i] : out.v_bits[i - layers];
            const double gain = (i < layers ? s.k[i] : s.v[i - layers]) * std::pow(4, -width);
            if (width == kMaxBits || gain <= best_gain) continue;
            best = &width;
            best_gain = gain;
        }
        if (best == nullptr) break;
        ++*best;
    }
    return out;
}

namespace {

// What the model is expected to move by.
double expected_divergence(const Sensitivity& s, const Schedule& schedule) {
    double sum = 0;
    for (size_t l = 0; l < s.k.size(); ++l) {
        if (schedule.skips(l)) continue;
        sum +=
            s.k[l] * std::pow(4, -schedule.k_bits[l]) + s.v[l] * std::pow(4, -schedule.v_bits[l]);
    }
    return sum;
}

Schedule joined(const Schedule& schedule, const KvLayout& layout) {
    codec::Sidecar sidecar;
    schedule.store(&sidecar);
    const std::vector<uint16_t> exact(schedule.skip_layers.begin(), schedule.skip_layers.end());
    sidecar.bits = join_widths(std::move(sidecar.bits), layout, exact);
    Schedule out = Schedule::of(sidecar);
    out.skip_layers = schedule.skip_layers;
    return out;
}

Sensitivity without(const Sensitivity& s, const std::vector<uint32_t>& skip) {
    Sensitivity some;
    for (size_t l = 0; l < s.k.size(); ++l) {
        if (std::ranges::find(skip, l) != skip.end()) continue;
        some.k.push_back(s.k[l]);
        some.v.push_back(s.v[l]);
    }
    return some;
}

// A schedule of all layers from one of those that are not skipped, which have the most bits.
Schedule with_skipped(const Schedule& some, const std::vector<uint32_t>& skip) {
    Schedule all{{}, {}, skip};
    const size_t layers = some.k_bits.size() + skip.size();
    for (size_t l = 0, from = 0; l < layers; ++l) {
        const bool skipped = all.skips(l);
        all.k_bits.push_back(skipped ? kMaxBits : some.k_bits[from]);
        all.v_bits.push_back(skipped ? kMaxBits : some.v_bits[from]);
        from += !skipped;
    }
    return all;
}

}  // namespace

Schedule allocate_joined(const Sensitivity& s, double bits, uint32_t head_dim,
                         const KvLayout& layout, const std::vector<uint32_t>& skip) {
    const Sensitivity some = without(s, skip);
    const double step = 1 / static_cast<double>(2 * some.k.size());
    const double least = kMinBits + 8.0 / head_dim;
    Schedule best = with_skipped(allocate(some, least, head_dim), skip);
    for (double budget = bits; budget >= least; budget -= step) {
        Schedule one = joined(with_skipped(allocate(some, budget, head_dim), skip), layout);
        if (one.coded_bits(head_dim) <= bits + 1e-9 &&
            expected_divergence(s, one) < expected_divergence(s, best))
            best = std::move(one);
    }
    return best;
}

std::unique_ptr<Candidate> scheduled_candidate(std::string name, Schedule schedule) {
    return std::make_unique<Scheduled>(std::move(name), std::move(schedule));
}

}  // namespace quire::bench
