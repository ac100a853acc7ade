#include "bench/eval/metric.h"

#include <cmath>
#include <utility>

#include "bench/eval/components.h"
#include "engine/model/rope.h"

namespace quire::bench {
namespace {

constexpr double kAdded = 1e-3;

Metric diagonal_metric(const std::vector<double>& costs) {
    const size_t n = costs.size();
    double mean = 0;
    for (const double c : costs) mean += c / static_cast<double>(n);
    if (!(mean > 0)) mean = 1;
    Metric out{.root = std::vector<double>(n * n), .inverse = std::vector<double>(n * n)};
    for (size_t i = 0; i < n; ++i) {
        out.root[i * n + i] = std::sqrt(costs[i] + kAdded * mean);
        out.inverse[i * n + i] = 1 / out.root[i * n + i];
    }
    return out;
}

// Sums over outputs, and over the heads that read one KV head, of weights' products.
std::vector<std::vector<double>> output_costs(const GgufModel& model, size_t layer) {
    const HParams& h = model.hparams();
    const auto n = static_cast<size_t>(h.head_dim);
    const auto heads = static_cast<size_t>(h.n_heads);
    const size_t sharing = heads / static_cast<size_t>(h.n_kv_heads);
    std::vector<std::vector<double>> costs(heads / sharing, std::vector<double>(n * n));
    std::vector<float> row(heads * n);
    for (const Matrix& matrix : model.weights().layer(layer).out.parts)
        for (int64_t o = 0; o < matrix.n_out; ++o) {
            dequantise_row(matrix, o, row.data());
            for (size_t head = 0; head < heads; ++head) {
                const float* w = row.data() + head * n;
                double* cost = costs[head / sharing].data();
                for (size_t a = 0; a < n; ++a)
                    for (size_t b = 0; b < n; ++b) cost[a * n + b] += double{w[a]} * double{w[b]};
            }
        }
    return costs;
}

}  // namespace

double Metric::trace() const {
    double sum = 0;
    for (const double x : root) sum += x * x;
    return sum;
}

Metric metric_of(std::vector<double> cost, size_t n) {
    double mean = 0;
    for (size_t i = 0; i < n; ++i) mean += cost[i * n + i] / static_cast<double>(n);
    if (!(mean > 0)) mean = 1;
    for (size_t i = 0; i < n; ++i) cost[i * n + i] += kAdded * mean;
    const Components parts = principal_components(std::move(cost), n);
    Metric out{.root = std::vector<double>(n * n), .inverse = std::vector<double>(n * n)};
    for (size_t c = 0; c < n; ++c) {
        const double root = std::sqrt(std::fmax(parts.variances[c], kAdded * mean));
        const double* direction = parts.rows.data() + c * n;
        for (size_t a = 0; a < n; ++a)
            for (size_t b = 0; b < n; ++b) {
                out.root[a * n + b] += root * direction[a] * direction[b];
                out.inverse[a * n + b] += direction[a] * direction[b] / root;
            }
    }
    return out;
}

QueryEnergy::QueryEnergy(const GgufModel& model)
    : sharing_(static_cast<size_t>(model.hparams().n_heads / model.hparams().n_kv_heads)),
      head_dim_(static_cast<size_t>(model.hparams().head_dim)) {
    const HParams& h = model.hparams();
    sums_.resize(static_cast<size_t>(h.n_layers),
                 std::vector<double>(static_cast<size_t>(h.n_heads) * head_dim_));
    rows_.resize(sums_.size());
    for (uint32_t d = 0; d < head_dim_; ++d) partner_.push_back(d);  // what RoPE leaves alone
    for (int32_t i = 0; i < h.rope_dim / 2; ++i) {
        const auto [x, y] = rope_dimensions(h.family->rope, h.rope_dim / 2, i);
        partner_[static_cast<size_t>(x)] = static_cast<uint32_t>(y);
        partner_[static_cast<size_t>(y)] = static_cast<uint32_t>(x);
    }
}

void QueryEnergy::see(uint32_t layer, const kernels::AttnShape&,
                      std::span<const kernels::AttnSequence> sequences) {
    std::vector<double>& sums = sums_[layer];
    for (const kernels::AttnSequence& s : sequences) {
        rows_[layer] += s.n_rows;
        for (int32_t r = 0; r < s.n_rows; ++r) {
            const float* q = s.q + r * s.q_row_stride;
            for (size_t i = 0; i < sums.size(); ++i) sums[i] += double{q[i]} * double{q[i]};
        }
    }
}

std::vector<double> QueryEnergy::of(uint32_t layer, uint32_t kv_head) const {
    std::vector<double> own(head_dim_), out;
    const double count = std::fmax(rows_[layer], 1) * static_cast<double>(sharing_);
    for (size_t head = kv_head * sharing_; head < (kv_head + 1) * sharing_; ++head)
        for (size_t d = 0; d < head_dim_; ++d) own[d] += sums_[layer][head * head_dim_ + d];
    for (size_t d = 0; d < head_dim_; ++d) out.push_back((own[d] + own[partner_[d]]) / 2 / count);
    return out;
}

std::vector<LayerMetrics> metrics_of(const GgufModel& model, const QueryEnergy& queries) {
    const HParams& h = model.hparams();
    std::vector<LayerMetrics> out;
    for (uint32_t layer = 0; std::cmp_less(layer, h.n_layers); ++layer) {
        LayerMetrics& metrics = out.emplace_back();
        for (std::vector<double>& cost : output_costs(model, layer)) {
            metrics.k.push_back(
                diagonal_metric(queries.of(layer, static_cast<uint32_t>(metrics.k.size()))));
            metrics.v.push_back(metric_of(std::move(cost), static_cast<size_t>(h.head_dim)));
        }
    }
    return out;
}

}  // namespace quire::bench
