// Medians, for benches. Pure; header only.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace quire::bench {

// NaN for an empty list.
inline double median(std::vector<double> values) {
    if (values.empty()) return NAN;
    const size_t middle = values.size() / 2;
    std::nth_element(values.begin(), values.begin() + middle, values.end());
    if (values.size() % 2 == 1) return values[middle];
    return (values[middle] + *std::max_element(values.begin(), values.begin() + middle)) / 2;
}

// Median of a[i] / b[i]: two things measured in turns, each pair under the same disturbance.
// REQUIRES: equal lengths.
inline double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> ratios;
    for (size_t i = 0; i < a.size(); ++i) ratios.push_back(b[i] > 0 ? a[i] / b[i] : NAN);
    return median(std::move(ratios));
}

}  // namespace quire::bench
