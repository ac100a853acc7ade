#include "bench/eval/divergence.h"

#include <algorithm>
#include <cmath>

namespace quire::bench {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
    if (sorted.empty()) return 0;
    const auto last = static_cast<double>(sorted.size() - 1);
    return sorted[static_cast<size_t>(std::llround(q * last))];
}

}  // namespace

LogitRow::LogitRow(std::span<const float> logits) : logits_(logits) {
    best_ = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    const float top = logits[best_];
    double sum = 0;
    for (const float x : logits) sum += static_cast<double>(std::exp(x - top));
    log_sum_ = double{top} + std::log(sum);
}

double divergence(const LogitRow& reference, const LogitRow& candidate) {
    const std::span<const float> a = reference.logits();
    const std::span<const float> b = candidate.logits();
    // Sums of p (log p - log q) with both logarithms relative to their row's sum.
    const auto shift = static_cast<float>(reference.log_sum());
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
        sum += static_cast<double>(std::exp(a[i] - shift)) * (double{a[i]} - double{b[i]});
    return std::max(0.0, sum - reference.log_sum() + candidate.log_sum());
}

void DivergenceTally::add(const LogitRow& reference, const LogitRow& candidate, TokenId next) {
    const bool same = reference.best() == candidate.best();
    if (!same && !differed_) first_difference_ = kl_.size();
    differed_ = differed_ || !same;
    same_best_ += same;
    kl_.push_back(divergence(reference, candidate));
    const auto token = static_cast<size_t>(next);
    log_ratio_ += reference.log_probability(token) - candidate.log_probability(token);
}

Divergence DivergenceTally::result() const {
    Divergence d{.positions = kl_.size()};
    if (kl_.empty()) return d;
    std::vector<double> sorted = kl_;
    std::sort(sorted.begin(), sorted.end());
    const auto n = static_cast<double>(kl_.size());
    for (const double kl : sorted) d.mean += kl / n;
    d.median = quantile(sorted, 0.5);
    d.p99 = quantile(sorted, 0.99);
    d.p999 = quantile(sorted, 0.999);
    d.max = sorted.back();
    d.top1 = static_cast<double>(same_best_) / n;
    d.perplexity_ratio = std::exp(log_ratio_ / n);
    d.first_difference = differed_ ? first_difference_ : d.positions;
    return d;
}

}  // namespace quire::bench
