#include "bench/eval/components.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace quire::bench {
namespace {

constexpr int kSweeps = 30;

// Turns rows p and q of a matrix: p' = c p - s q, q' = s p + c q.
void turn_rows(double* m, size_t n, size_t p, size_t q, double c, double s) {
    for (size_t i = 0; i < n; ++i) {
        const double a = m[p * n + i], b = m[q * n + i];
        m[p * n + i] = c * a - s * b;
        m[q * n + i] = s * a + c * b;
    }
}
void turn_columns(double* m, size_t n, size_t p, size_t q, double c, double s) {
    for (size_t i = 0; i < n; ++i) {
        const double a = m[i * n + p], b = m[i * n + q];
        m[i * n + p] = c * a - s * b;
        m[i * n + q] = s * a + c * b;
    }
}

// Zeroes what is not negligible beside the trace; false: there was nothing.
bool sweep(double* a, double* rows, size_t n, double negligible) {
    bool turned = false;
    for (size_t p = 0; p + 1 < n; ++p)
        for (size_t q = p + 1; q < n; ++q) {
            const double off = a[p * n + q];
            if (std::fabs(off) <= negligible) continue;
            turned = true;
            // The smaller of the two angles that make a[p][q] zero.
            const double slope = (a[q * n + q] - a[p * n + p]) / (2 * off);
            const double t = std::copysign(1 / (std::fabs(slope) + std::hypot(slope, 1.0)), slope);
            const double c = 1 / std::hypot(t, 1.0), s = t * c;
            turn_columns(a, n, p, q, c, s);
            turn_rows(a, n, p, q, c, s);
            turn_rows(rows, n, p, q, c, s);
        }
    return turned;
}

}  // namespace

Components principal_components(std::vector<double> a, size_t n) {
    std::vector<double> rows(n * n);
    double trace = 0;
    for (size_t i = 0; i < n; ++i) {
        rows[i * n + i] = 1;
        trace += std::fabs(a[i * n + i]);
    }
    const double negligible = 1e-9 * trace / static_cast<double>(n);
    for (int i = 0; i < kSweeps && sweep(a.data(), rows.data(), n, negligible); ++i) {
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>{}, [&](size_t i) { return a[i * n + i]; });
    Components out;
    for (const size_t i : order) {
        out.variances.push_back(std::max(0.0, a[i * n + i]));
        out.rows.insert(out.rows.end(), rows.begin() + static_cast<std::ptrdiff_t>(i * n),
                        rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
    }
    return out;
}

}  // namespace quire::bench
