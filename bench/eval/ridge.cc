#include "bench/eval/ridge.h"

#include <cmath>

namespace quire::bench {

void Ridge::extend(std::span<const double> products, size_t n) {
    const size_t before = inputs(), width = before + n;
    double trace = 0;
    for (size_t i = 0; i < n; ++i) trace += products[i * width + before + i];
    const double added = share_ * trace / static_cast<double>(n) + 1e-12;
    for (size_t i = 0; i < n; ++i) {
        const double* row = products.data() + i * width;
        std::vector<double> own(row, row + before + i + 1);
        own.back() += added;
        for (size_t j = 0; j < own.size(); ++j) {
            const std::vector<double>& other = j + 1 < own.size() ? lower_[j] : own;
            double sum = own[j];
            for (size_t k = 0; k < j; ++k) sum -= own[k] * other[k];
            own[j] = j + 1 < own.size() ? sum / other[j] : std::sqrt(std::fmax(sum, 1e-300));
        }
        lower_.push_back(std::move(own));
    }
}

std::vector<double> Ridge::weights(std::vector<double> w, size_t outputs) const {
    // Forward, then backward, a row of outputs at a time.
    const auto subtract = [&](size_t from, double factor, size_t row) {
        for (size_t o = 0; o < outputs; ++o) w[row * outputs + o] -= factor * w[from * outputs + o];
    };
    const auto divide = [&](size_t row) {
        for (size_t o = 0; o < outputs; ++o) w[row * outputs + o] /= lower_[row][row];
    };
    for (size_t i = 0; i < inputs(); ++i) {
        for (size_t k = 0; k < i; ++k) subtract(k, lower_[i][k], i);
        divide(i);
    }
    for (size_t i = inputs(); i-- > 0;) {
        for (size_t k = i + 1; k < inputs(); ++k) subtract(k, lower_[k][i], i);
        divide(i);
    }
    return w;
}

}  // namespace quire::bench
