#include "bench/eval/attention_error.h"

#include <algorithm>
#include <cmath>

namespace quire::bench {

void AttentionError::attended(uint32_t layer, std::span<const float> out) {
    if (next_ == kNothing) return;
    std::vector<float>& exact = exact_[layer];
    if (next_ == kExact) {
        exact.assign(out.begin(), out.end());
        return;
    }
    // Rows are short enough for float sums; over all of them it takes double.
    constexpr size_t kRow = 256;
    Sums& sums = sums_[next_][layer];
    for (size_t at = 0; at < exact.size(); at += kRow) {
        const size_t end = std::min(at + kRow, exact.size());
        float error = 0, whole = 0;
        for (size_t i = at; i < end; ++i) {
            const float off = out[i] - exact[i];
            error += off * off;
            whole += exact[i] * exact[i];
        }
        sums.error += double{error};
        sums.whole += double{whole};
    }
}

std::vector<double> AttentionError::relative_rms(size_t candidate) const {
    std::vector<double> out;
    for (const Sums& sums : sums_[candidate])
        out.push_back(sums.whole > 0 ? std::sqrt(sums.error / sums.whole) : 0);
    return out;
}

}  // namespace quire::bench
