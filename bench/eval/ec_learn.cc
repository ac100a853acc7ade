#include "bench/eval/ec_learn.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/check.h"
#include "bench/eval/components.h"
#include "bench/eval/ec_tables.h"
#include "bench/eval/foretell.h"
#include "codec/ec/block.h"

namespace quire::bench {
namespace {

using codec::ec::HeadModel;

// Steps would be optimal with the power .5 of the sensitivity to an error; what is measured is
// tempered.
constexpr double kStepPower = 0.35;
// Of the layer's chain, whose keys and values foretell its own, besides its own heads that are
// decoded before.
constexpr size_t kLayersBefore = 1;
// What prediction saves, roughly: the step for so many bits is found before it.
constexpr double kSavedBits = 0.6;

// Weights for an input are learned from so many tokens at least.
constexpr size_t kTokensAnInput = 3;
// Prediction stays where it leaves less than this share of the variance.
constexpr double kWorthIt = 0.95;

// One side of one head: [tokens][head_dim] less the mean.
struct Side {
    std::vector<float> mean;
    std::vector<float> rows;
    size_t dims() const { return mean.size(); }
    size_t tokens() const { return rows.size() / mean.size(); }
};

Side less_mean(std::vector<float> rows, const std::vector<float>& mean) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] -= mean[i % mean.size()];
    return {mean, std::move(rows)};
}

double variance_of(const Side& side) {
    double sum = 0;
    for (const float x : side.rows) sum += double{x} * double{x};
    return sum / static_cast<double>(side.rows.size());
}

// A layer's heads, K before V.
std::vector<Side> read_layer(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                             uint32_t layer) {
    std::vector<Side> sides, values;
    for (const KvPages::Rows& rows : rows_by_layer(pages.layout(), kSinkTokens, tokens)) {
        const KvGroup& group = pages.layout().groups[rows.group];
        if (group.layers[rows.layer_in_group] != layer) continue;
        std::vector<float> k(size_t{tokens - kSinkTokens} * group.head_dim), v(k.size());
        pages.read(rows, k.data(), v.data());
        means.turn(layer, rows.first, rows.last, Turn::back, k.data());
        const HeadMeans& mean = means.of(layer, rows.head);
        sides.push_back(less_mean(std::move(k), mean.k_before));
        values.push_back(less_mean(std::move(v), mean.v));
    }
    std::ranges::move(values, std::back_inserter(sides));
    return sides;
}

// The product of two matrices [n][n].
std::vector<double> times(const std::vector<double>& a, const std::vector<double>& b, size_t n) {
    std::vector<double> out(n * n);
    for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < n; ++k)
            for (size_t j = 0; j < n; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
    return out;
}

std::vector<double> covariance_of(const Side& side) {
    const size_t n = side.dims(), tokens = side.tokens();
    std::vector<double> covariance(n * n);
    for (size_t t = 0; t < tokens; ++t)
        for (size_t a = 0; a < n; ++a) {
            const double x = double{side.rows[t * n + a]} / static_cast<double>(tokens);
            for (size_t b = 0; b <= a; ++b)
                covariance[a * n + b] += x * double{side.rows[t * n + b]};
        }
    for (size_t a = 0; a < n; ++a)
        for (size_t b = 0; b < a; ++b) covariance[b * n + a] = covariance[a * n + b];
    return covariance;
}

// Principal components of rows as the metric sees them: with one step for all, errors of the same
// size cost the same.
void set_components(const Side& side, const Metric& metric, HeadModel* head) {
    const size_t n = side.dims();
    std::vector<double> seen = times(times(metric.root, covariance_of(side), n), metric.root, n);
    const Components components = principal_components(std::move(seen), n);
    const std::vector<double> forward = times(components.rows, metric.root, n);
    const std::vector<double> back = times(components.rows, metric.inverse, n);
    head->components.assign(forward.begin(), forward.end());
    head->restore.assign(back.begin(), back.end());
    for (const double v : components.variances)
        head->deviations.push_back(static_cast<float>(std::sqrt(v)));
}

// [tokens][head_dim] along the components.
std::vector<float> projected(const Side& side, const HeadModel& head) {
    const size_t n = side.dims();
    std::vector<float> out(side.rows.size());
    for (size_t t = 0; t < side.tokens(); ++t)
        for (size_t c = 0; c < n; ++c) {
            float sum = 0;
            for (size_t d = 0; d < n; ++d) sum += head.components[c * n + d] * side.rows[t * n + d];
            out[t * n + c] = sum;
        }
    return out;
}

// Of rows, foretold or not.
void set_spreads(const Side& side, HeadModel* head) {
    const std::vector<float> projections = projected(side, *head);
    const size_t n = side.dims();
    for (size_t c = 0; c < n; ++c) {
        double squares = 0;
        for (size_t t = 0; t < side.tokens(); ++t)
            squares += double{projections[t * n + c]} * double{projections[t * n + c]};
        head->spreads.push_back(
            static_cast<float>(std::sqrt(squares / static_cast<double>(side.tokens()))));
    }
}

// Weights [inputs][n] of numbers become those of components: what a component adds to the number of
// an earlier head, times what that adds to a component of this one. `earlier` are heads as decoded,
// the last of which have those inputs.
void to_components(std::span<const HeadModel* const> earlier, HeadModel* head) {
    const size_t n = head->head_dim, inputs = head->weights.size() / n;
    const std::vector<double> forward(head->components.begin(), head->components.end());
    std::vector<float> out(head->weights.size());
    for (size_t end = inputs; end > 0;) {
        QUIRE_CHECK(!earlier.empty(), "ec: inputs of no head");
        const HeadModel& from = *earlier.back();
        earlier = earlier.first(earlier.size() - 1);
        const size_t m = from.head_dim, begin = end - m;
        std::vector<double> along(m * n);  // [input's number][this head's component]
        for (size_t i = 0; i < m; ++i)
            for (size_t c = 0; c < n; ++c)
                for (size_t d = 0; d < n; ++d)
                    along[i * n + c] +=
                        forward[c * n + d] * double{head->weights[(begin + i) * n + d]};
        for (size_t i = 0; i < m; ++i)
            for (size_t c = 0; c < n; ++c) {
                double sum = 0;
                for (size_t j = 0; j < m; ++j)
                    sum += double{from.restore[i * m + j]} * along[j * n + c];
                out[(begin + i) * n + c] = static_cast<float>(sum);
            }
        end = begin;
    }
    head->weights = std::move(out);
}

// All heads, whose weights are of numbers.
void to_components(const std::vector<std::vector<uint16_t>>& chains, codec::ec::Model* model) {
    for (const std::vector<uint16_t>& chain : chains) {
        std::vector<const HeadModel*> decoded;
        for (const uint16_t layer : chain)
            for (auto* side : {&model->k, &model->v})
                for (HeadModel& head : (*side)[layer]) {
                    to_components(decoded, &head);
                    decoded.push_back(&head);
                }
    }
}

// Adds to `rows` what rounding to the step does to `left` (what is left after prediction).
void add_rounding(const std::vector<float>& projections, const HeadModel& head, double step,
                  Side* rows) {
    const size_t n = rows->dims();
    const auto own = static_cast<float>(step * double{head.step});
    for (size_t t = 0; t < rows->tokens(); ++t)
        for (size_t c = 0; c < n; ++c) {
            const float x = projections[t * n + c];
            const float error = std::round(x / own) * own - x;
            for (size_t d = 0; d < n; ++d) rows->rows[t * n + d] += error * head.restore[c * n + d];
        }
}

// Factors of the steps, of geometric mean 1: an error moves the model by about sensitivity over
// variance, for sensitivity was measured by coding relative to the rows' own size. Variances are as
// the metrics see them.
std::vector<codec::LayerSensitivity> step_factors(const codec::Sidecar& sidecar,
                                                  const std::vector<double>& variances) {
    const size_t layers = sidecar.layers.size();
    std::vector<double> logs;
    double mean = 0;
    for (size_t i = 0; i < 2 * layers; ++i) {
        const double variance = std::max(variances[i], 1e-20);
        double log = 0.5 * std::log(variance);
        if (!sidecar.sensitivity.empty()) {
            const codec::LayerSensitivity& s = sidecar.sensitivity[i % layers];
            const double own = std::max(double{i < layers ? s.k : s.v}, 1e-12);
            log = -kStepPower * std::log(own / variance);
        }
        logs.push_back(log);
        mean += log / static_cast<double>(2 * layers);
    }
    std::vector<codec::LayerSensitivity> factors;
    for (size_t l = 0; l < layers; ++l)
        factors.push_back({static_cast<float>(std::exp(logs[l] - mean)),
                           static_cast<float>(std::exp(logs[l + layers] - mean))});
    return factors;
}

// [layers] the number of each layer's chain.
std::vector<size_t> chain_of_layers(const codec::Sidecar& sidecar) {
    const std::vector<std::vector<uint16_t>> chains = codec::ec::chains_of(sidecar.layers);
    std::vector<size_t> out(sidecar.layers.size());
    for (size_t chain = 0; chain < chains.size(); ++chain)
        for (const uint16_t layer : chains[chain]) out[layer] = chain;
    return out;
}

class Learner {
 public:
    Learner(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
            const std::vector<LayerMetrics>& metrics, const codec::Sidecar& sidecar)
        : pages_(pages), tokens_(tokens), means_(means), metrics_(metrics), sidecar_(sidecar) {
        const size_t layers = sidecar.layers.size();
        std::vector<double> variances(2 * layers);
        for (uint32_t l = 0; l < layers; ++l) {
            const std::vector<Side> sides = read_layer(pages, tokens, means, l);
            const size_t heads = sides.size() / 2;
            for (size_t s = 0; s < sides.size(); ++s)
                variances[l + (s < heads ? 0 : layers)] +=
                    variance_of(sides[s]) * metric(l, s, heads).trace();
        }
        factors_ = step_factors(sidecar, variances);
    }

    // step 0: without prediction.
    codec::ec::Model learn(double step) const {
        codec::ec::Model model;
        ClassPool pool(sidecar_);
        const std::vector<size_t> chains = chain_of_layers(sidecar_);
        // [chains] layers as decoded
        std::vector<std::deque<std::vector<Side>>> decoded(chains.size());
        for (uint32_t l = 0; l < sidecar_.layers.size(); ++l) {
            std::vector<Side> sides = read_layer(pages_, tokens_, means_, l);
            const size_t heads = sides.size() / 2;
            model.k.emplace_back();
            model.v.emplace_back();
            Foreteller foreteller(tokens_ - kSinkTokens);
            std::deque<std::vector<Side>>& before = decoded[chains[l]];
            for (const std::vector<Side>& layer : before)
                for (const Side& side : layer) foreteller.add(side.rows, side.dims());
            for (size_t s = 0; s < sides.size(); ++s) {
                HeadModel head{.head_dim = static_cast<uint32_t>(sides[s].dims()),
                               .step = s < heads ? factors_[l].k : factors_[l].v,
                               .mean = sides[s].mean};
                learn_head(foreteller, metric(l, s, heads), step, &sides[s], &head, &pool);
                if (step > 0 && s + 1 < sides.size())
                    foreteller.add(sides[s].rows, sides[s].dims());
                (s < heads ? model.k : model.v)[l].push_back(std::move(head));
            }
            if (step > 0) before.push_back(std::move(sides));
            if (before.size() > kLayersBefore) before.pop_front();
        }
        model.classes = pool.classes();
        to_components(codec::ec::chains_of(sidecar_.layers), &model);
        return model;
    }

 private:
    // With a step `side` is afterwards as decoded.
    static void learn_head(const Foreteller& foreteller, const Metric& metric, double step,
                           Side* side, HeadModel* head, ClassPool* pool) {
        Side left = *side;
        // From too little text nothing is to be foretold.
        const size_t inputs = foreteller.inputs();
        if (inputs > 0 && inputs * kTokensAnInput <= left.tokens())
            head->weights = foreteller.foretell(left.rows, left.dims());
        if (variance_of(left) > kWorthIt * variance_of(*side)) {
            head->weights.clear();
            left = *side;
        }
        set_components(left, metric, head);
        set_spreads(*side, head);
        const std::vector<float> projections = projected(left, *head);
        pool->add(projections, *head);
        if (step > 0) add_rounding(projections, *head, step, side);
    }

    const Metric& metric(uint32_t layer, size_t side, size_t heads) const {
        return side < heads ? metrics_[layer].k[side] : metrics_[layer].v[side - heads];
    }

    const KvPages& pages_;
    uint32_t tokens_;
    const ModelMeans& means_;
    const std::vector<LayerMetrics>& metrics_;
    const codec::Sidecar& sidecar_;
    std::vector<codec::LayerSensitivity> factors_;
};

}  // namespace

codec::ec::Model learn_ec(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                          const std::vector<LayerMetrics>& metrics, const codec::Sidecar& sidecar,
                          double bits) {
    const Learner learner(pages, tokens, means, metrics, sidecar);
    const codec::ec::Model alone = learner.learn(0);
    return learner.learn(codec::ec::Coder(alone).step_for(bits + kSavedBits));
}

}  // namespace quire::bench
