#include "bench/eval/foretell.h"

#include <algorithm>

namespace quire::bench {
namespace {

// Of the inputs' mean square: predictors are many beside the tokens that they are learned from.
constexpr double kRidge = 1e-3;
constexpr size_t kFoldTokens = 64;
// At a time, so that sums stay in the first-level cache. Divides kFoldTokens.
constexpr size_t kBatchTokens = 8;

size_t fold_of(size_t token) {
    return token / kFoldTokens % 2;
}

// Calls f(first, last) for batches of tokens of one fold.
template <typename F>
void for_batches(size_t tokens, F f) {
    for (size_t t = 0; t < tokens; t += kBatchTokens) f(t, std::min(t + kBatchTokens, tokens));
}

std::vector<double> sum_of(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> out(a.size());
    for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i];
    return out;
}

}  // namespace

Foreteller::Foreteller(size_t tokens)
    : tokens_(tokens), rows_(tokens), ridges_{Ridge(kRidge), Ridge(kRidge), Ridge(kRidge)} {}

void Foreteller::add(std::span<const float> rows, size_t dims) {
    for (size_t t = 0; t < tokens_; ++t)
        for (size_t d = 0; d < dims; ++d) rows_[t].push_back(double{rows[t * dims + d]});
    const size_t before = inputs_, width = before + dims;
    std::array<std::vector<double>, 2> products;
    for (auto& p : products) p.resize(dims * width);
    for_batches(tokens_, [&](size_t first, size_t last) {
        std::vector<double>& sums = products[fold_of(first)];
        for (size_t i = 0; i < dims; ++i)
            for (size_t t = first; t < last; ++t) {
                const double x = rows_[t][before + i];
                double* p = sums.data() + i * width;
                for (size_t j = 0; j <= before + i; ++j) p[j] += x * rows_[t][j];
            }
    });
    ridges_[0].extend(products[0], dims);
    ridges_[1].extend(products[1], dims);
    ridges_[2].extend(sum_of(products[0], products[1]), dims);
    inputs_ = width;
}

std::vector<float> Foreteller::foretell(std::span<float> rows, size_t dims) const {
    std::array<std::vector<double>, 2> products;
    for (auto& p : products) p.resize(inputs_ * dims);
    const std::vector<double> wanted(rows.begin(), rows.end());
    for_batches(tokens_, [&](size_t first, size_t last) {
        std::vector<double>& sums = products[fold_of(first)];
        for (size_t i = 0; i < inputs_; ++i)
            for (size_t t = first; t < last; ++t) {
                const double x = rows_[t][i];
                double* p = sums.data() + i * dims;
                for (size_t d = 0; d < dims; ++d) p[d] += x * wanted[t * dims + d];
            }
    });
    const std::vector<double> all = ridges_[2].weights(sum_of(products[0], products[1]), dims);
    const std::array<std::vector<double>, 2> halves = {
        ridges_[0].weights(std::move(products[0]), dims),
        ridges_[1].weights(std::move(products[1]), dims)};
    std::vector<double> left = wanted;
    for_batches(tokens_, [&](size_t first, size_t last) {
        const std::vector<double>& weights = halves[1 - fold_of(first)];
        for (size_t i = 0; i < inputs_; ++i)
            for (size_t t = first; t < last; ++t) {
                const double x = rows_[t][i];
                const double* w = weights.data() + i * dims;
                for (size_t d = 0; d < dims; ++d) left[t * dims + d] -= x * w[d];
            }
    });
    for (size_t i = 0; i < left.size(); ++i) rows[i] = static_cast<float>(left[i]);
    return {all.begin(), all.end()};
}

}  // namespace quire::bench
