#include "bench/eval/row_maps.h"

#include <cmath>
#include <utility>

#include "bench/eval/components.h"
#include "codec/hot/scale.h"

namespace quire::bench {
namespace {

// Of the mean diagonal: text that was not seen may go where the calibration's did not.
constexpr double kAdded = 0.01;
// Of the best metric. 1 is best for rows of one length; with what rows and queries are, it loses.
constexpr double kPower = 0.5;

// To a mean diagonal of 1, and a little more on it.
void normalise(std::vector<double>* matrix, size_t n) {
    double trace = 0;
    for (size_t i = 0; i < n; ++i) trace += (*matrix)[i * n + i];
    for (double& x : *matrix) x *= trace > 0 ? static_cast<double>(n) / trace : 0;
    for (size_t i = 0; i < n; ++i) (*matrix)[i * n + i] += kAdded;
}

// a [n][n] times b [n][n].
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, size_t n) {
    std::vector<double> out(n * n);
    for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < n; ++k)
            for (size_t j = 0; j < n; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
    return out;
}

std::vector<double> transposed(const std::vector<double>& a, size_t n) {
    std::vector<double> out(n * n);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j) out[j * n + i] = a[i * n + j];
    return out;
}

// The lower triangle whose product with its transpose is a positive definite matrix.
std::vector<double> cholesky(const std::vector<double>& a, size_t n) {
    std::vector<double> lower(n * n);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j <= i; ++j) {
            double sum = a[i * n + j];
            for (size_t k = 0; k < j; ++k) sum -= lower[i * n + k] * lower[j * n + k];
            lower[i * n + j] = i == j ? std::sqrt(std::fmax(sum, 1e-300)) : sum / lower[j * n + j];
        }
    return lower;
}

// Rows r of `rows` become the solution x of x lower = r.
void divide_rows(const std::vector<double>& lower, size_t n, std::vector<double>* rows) {
    for (size_t r = 0; r < n; ++r) {
        double* x = rows->data() + r * n;
        for (size_t i = n; i-- > 0;) {
            x[i] /= lower[i * n + i];
            for (size_t j = 0; j < i; ++j) x[j] -= x[i] * lower[i * n + j];
        }
    }
}

// Where the c-th largest component goes, so that every Hadamard block has large and small ones.
size_t place_of(size_t c, size_t n) {
    const size_t block = codec::hot::hadamard_block(static_cast<uint32_t>(n));
    const size_t blocks = n / block;
    return c % blocks * block + c / blocks;
}

std::vector<double> covariance_of(const std::vector<float>& rows, size_t n) {
    std::vector<double> sums(n * n);
    for (size_t t = 0; t < rows.size(); t += n)
        for (size_t a = 0; a < n; ++a)
            for (size_t b = 0; b <= a; ++b)
                sums[a * n + b] += double{rows[t + a]} * double{rows[t + b]};
    for (size_t a = 0; a < n; ++a)
        for (size_t b = 0; b < a; ++b) sums[b * n + a] = sums[a * n + b];
    return sums;
}

void subtract(const float* means, size_t period, std::vector<float>* rows) {
    for (size_t i = 0; i < rows->size(); ++i) (*rows)[i] -= means[i % period];
}

// The metric in which equal errors in all directions cost least for such rows: the geometric mean
// of the covariance's inverse and the cost, which is P with P covariance P = cost.
std::vector<double> best_metric(const std::vector<double>& covariance,
                                const std::vector<double>& cost, size_t n) {
    // With covariance = lower lower' and lower' cost lower = U L^2 U', P is R' R with
    // R = L^1/2 U' lower^-1.
    const std::vector<double> lower = cholesky(covariance, n);
    const Components parts =
        principal_components(product(product(transposed(lower, n), cost, n), lower, n), n);
    std::vector<double> root = parts.rows;
    divide_rows(lower, n, &root);
    for (size_t c = 0; c < n; ++c)
        for (size_t d = 0; d < n; ++d)
            root[c * n + d] *= std::pow(std::fmax(parts.variances[c], 1e-30), 0.25);
    return product(transposed(root, n), root, n);
}

struct Powers {
    std::vector<double> forward, back;  // symmetric, inverse of each other
};
// Of a symmetric, positive definite matrix.
Powers powers_of(std::vector<double> matrix, double power, size_t n) {
    const Components parts = principal_components(std::move(matrix), n);
    const auto to = [&](double exponent) {
        std::vector<double> scaled = parts.rows;
        for (size_t c = 0; c < n; ++c)
            for (size_t d = 0; d < n; ++d)
                scaled[c * n + d] *= std::pow(std::fmax(parts.variances[c], 1e-12), exponent);
        return product(transposed(parts.rows, n), scaled, n);
    };
    return {to(power), to(-power)};
}

}  // namespace

TurnPair best_turn(std::vector<double> covariance, std::vector<double> cost, double power,
                   size_t n) {
    normalise(&covariance, n);
    normalise(&cost, n);
    std::vector<double> metric = best_metric(covariance, cost, n);
    normalise(&metric, n);
    const Powers root = powers_of(std::move(metric), power / 2, n);
    const Components parts =
        principal_components(product(product(root.forward, covariance, n), root.forward, n), n);
    const std::vector<double> lines = product(parts.rows, root.forward, n);
    const std::vector<double> back = product(parts.rows, root.back, n);
    TurnPair out{std::vector<float>(n * n), std::vector<float>(n * n)};
    for (size_t c = 0; c < n; ++c)
        for (size_t d = 0; d < n; ++d) {
            out.forward[d * n + place_of(c, n)] = static_cast<float>(lines[c * n + d]);
            out.back[place_of(c, n) * n + d] = static_cast<float>(back[c * n + d]);
        }
    return out;
}

std::vector<uint16_t> turned_order(size_t n) {
    std::vector<uint16_t> order;
    for (size_t c = 0; c < n; ++c) order.push_back(static_cast<uint16_t>(place_of(c, n)));
    return order;
}

RowMaps learn_row_maps(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                       const std::vector<LayerMetrics>& metrics, const QueryCovariance& queries) {
    RowMaps out;
    out.matrices.heads.resize(metrics.size());
    out.orders.heads.resize(metrics.size());
    for (const KvPages::Rows& rows : rows_by_layer(pages.layout(), kSinkTokens, tokens)) {
        const KvGroup& group = pages.layout().groups[rows.group];
        const uint32_t layer = group.layers[rows.layer_in_group];
        const size_t n = group.head_dim;
        std::vector<float> k(size_t{tokens - kSinkTokens} * n), v(k.size()), turned_mean;
        pages.read(rows, k.data(), v.data());
        means.rotate(layer, rows.head, rows.first, rows.last, &turned_mean);
        subtract(turned_mean.data(), turned_mean.size(), &k);
        subtract(means.of(layer, rows.head).v.data(), n, &v);
        const std::vector<double>& root = metrics[layer].v[rows.head].root;
        TurnPair k_turn = best_turn(covariance_of(k, n), queries.of(layer, rows.head), kPower, n);
        TurnPair v_turn = best_turn(covariance_of(v, n), product(root, root, n), kPower, n);
        out.matrices.heads[layer].push_back({std::move(k_turn.forward), std::move(k_turn.back),
                                             std::move(v_turn.forward), std::move(v_turn.back)});
        out.orders.heads[layer].push_back({turned_order(n), turned_order(n)});
    }
    return out;
}

}  // namespace quire::bench
