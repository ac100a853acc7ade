#include "bench/eval/ec_learn.h"

#include <algorithm>
#include <cmath>

#include "bench/eval/components.h"

namespace quire::bench {
namespace {

using codec::ec::ClassModel;
using codec::ec::HeadModel;

constexpr size_t kPoolNumbers = 1 << 18;  // that tables are made from
// Steps would be optimal with the power .5 of the sensitivity to an error; what is measured is
// tempered.
constexpr double kStepPower = 0.35;

// One side of one head; its components over their deviations go into the pool.
class HeadLearner {
 public:
    explicit HeadLearner(size_t pool_of_head) : pool_of_head_(pool_of_head) {}

    HeadModel learn(const std::vector<float>& rows, const std::vector<float>& mean,
                    std::vector<float>* pool, double* variance) const {
        const size_t n = mean.size(), tokens = rows.size() / n;
        std::vector<double> covariance(n * n);
        std::vector<double> centred(n);
        for (size_t t = 0; t < tokens; ++t) {
            for (size_t d = 0; d < n; ++d) centred[d] = double{rows[t * n + d]} - double{mean[d]};
            for (size_t a = 0; a < n; ++a)
                for (size_t b = 0; b <= a; ++b) covariance[a * n + b] += centred[a] * centred[b];
        }
        *variance = 0;
        for (size_t a = 0; a < n; ++a) {
            for (size_t b = 0; b <= a; ++b) {
                covariance[a * n + b] /= static_cast<double>(tokens);
                covariance[b * n + a] = covariance[a * n + b];
            }
            *variance += covariance[a * n + a] / static_cast<double>(n);
        }
        const Components components = principal_components(std::move(covariance), n);
        HeadModel head{.head_dim = static_cast<uint32_t>(n), .mean = mean};
        head.components.assign(components.rows.begin(), components.rows.end());
        for (const double v : components.variances)
            head.deviations.push_back(static_cast<float>(std::sqrt(v)));
        add_to_pool(rows, head, pool);
        return head;
    }

 private:
    void add_to_pool(const std::vector<float>& rows, const HeadModel& head,
                     std::vector<float>* pool) const {
        const size_t n = head.head_dim, tokens = rows.size() / n;
        const size_t wanted = std::clamp<size_t>(pool_of_head_ / n, 1, tokens);
        for (size_t i = 0; i < wanted; ++i) {
            const float* row = rows.data() + i * tokens / wanted * n;
            for (size_t c = 0; c < n; ++c) {
                if (!(head.deviations[c] > 0)) continue;
                float sum = 0;
                for (size_t d = 0; d < n; ++d)
                    sum += head.components[c * n + d] * (row[d] - head.mean[d]);
                pool->push_back(sum / head.deviations[c]);
            }
        }
    }

    size_t pool_of_head_;
};

// How numbers of deviation 1 fall when they are `scale` times as large and rounded.
ClassModel learn_class(const std::vector<float>& pool, double scale) {
    constexpr int32_t kLargest = codec::ec::kLargest;
    std::array<double, codec::ec::kSymbols> counts;
    counts.fill(0.02);  // nothing is impossible
    double short_one = 0, short_more = 0, ones = 0, more = 0;
    for (const float x : pool) {
        const double size = std::fabs(double{x}) * scale;
        const double rounded = std::min(std::round(size), double{kLargest});
        const auto integer = static_cast<int32_t>(rounded);
        // Both signs: what is learned is symmetric.
        counts[static_cast<size_t>(kLargest + integer)] += 0.5;
        counts[static_cast<size_t>(kLargest - integer)] += 0.5;
        if (integer == 1) {
            short_one += 1 - size;
            ++ones;
        } else if (integer > 1 && integer < kLargest) {
            short_more += rounded - size;
            ++more;
        }
    }
    ClassModel out{.frequencies = codec::ec::RansTable::fit(counts)};
    const auto shrink = [](double sum, double n) {
        return static_cast<float>(std::clamp(sum / (n + 8), 0.0, 0.5));
    };
    out.shrink_one = shrink(short_one, ones);
    out.shrink_more = shrink(short_more, more);
    return out;
}

// Factors of the steps, of geometric mean 1: an error moves the model by about sensitivity over
// variance, for sensitivity was measured by coding relative to the rows' own size.
void set_steps(const codec::Sidecar& sidecar, const std::vector<double>& k_variance,
               const std::vector<double>& v_variance, codec::ec::Model* model) {
    const size_t layers = sidecar.layers.size();
    std::vector<double> logs;
    for (size_t i = 0; i < 2 * layers; ++i) {
        const size_t l = i % layers;
        const double variance = std::max(i < layers ? k_variance[l] : v_variance[l], 1e-20);
        double log = 0.5 * std::log(variance);
        if (!sidecar.sensitivity.empty()) {
            const auto& s = sidecar.sensitivity[l];
            log =
                -kStepPower * std::log(std::max(double{i < layers ? s.k : s.v}, 1e-12) / variance);
        }
        logs.push_back(log);
    }
    double mean = 0;
    for (const double log : logs) mean += log / static_cast<double>(logs.size());
    for (size_t i = 0; i < 2 * layers; ++i)
        for (HeadModel& head : (i < layers ? model->k : model->v)[i % layers])
            head.step = static_cast<float>(std::exp(logs[i] - mean));
}

}  // namespace

codec::ec::Model learn_ec(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                          const codec::Sidecar& sidecar) {
    const size_t layers = sidecar.layers.size();
    size_t heads = 0;
    for (const codec::SidecarLayer& layer : sidecar.layers) heads += 2 * layer.kv_heads;
    const HeadLearner learner(kPoolNumbers / heads);
    codec::ec::Model model;
    model.k.resize(layers);
    model.v.resize(layers);
    std::vector<double> k_variance(layers), v_variance(layers);
    std::vector<float> pool;
    for_each_head(pages.layout(), kSinkTokens, tokens,
                  [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                      std::vector<float>& v) {
                      const uint32_t layer = group.layers[rows.layer_in_group];
                      pages.read(rows, k.data(), v.data());
                      means.turn(layer, rows.first, rows.last, Turn::back, k.data());
                      const HeadMeans& mean = means.of(layer, rows.head);
                      double variance = 0;
                      model.k[layer].push_back(learner.learn(k, mean.k_before, &pool, &variance));
                      k_variance[layer] += variance / group.kv_heads;
                      model.v[layer].push_back(learner.learn(v, mean.v, &pool, &variance));
                      v_variance[layer] += variance / group.kv_heads;
                  });
    for (uint32_t c = 0; c < codec::ec::kClasses; ++c)
        model.classes.push_back(learn_class(pool, std::exp2(codec::ec::kLowestClass + c / 4.0)));
    set_steps(sidecar, k_variance, v_variance, &model);
    return model;
}

}  // namespace quire::bench
