#include "engine/model/rope.h"

#include <cmath>

namespace quire {

RopeTable::RopeTable(int32_t rope_dim, double base, double position_scale, const float* factors) {
    for (int32_t i = 0; i < rope_dim / 2; ++i) {
        const double divisor = factors == nullptr ? 1.0 : static_cast<double>(factors[i]);
        frequencies_.push_back(position_scale * std::pow(base, -2.0 * i / rope_dim) / divisor);
    }
}

void RopeTable::fill(int32_t position, float* out) const {
    const size_t n = frequencies_.size();
    for (size_t i = 0; i < n; ++i) {
        const double angle = position * frequencies_[i];
        out[i] = static_cast<float>(std::cos(angle));
        out[n + i] = static_cast<float>(std::sin(angle));
    }
}

void rope_rotate(RopeStyle style, int32_t pairs, const float* table, float* head) {
    const float* cosine = table;
    const float* sine = table + pairs;
    if (style == RopeStyle::halves) {
        float* low = head;
        float* high = head + pairs;
        for (int32_t i = 0; i < pairs; ++i) {
            const float a = low[i];
            const float b = high[i];
            low[i] = a * cosine[i] - b * sine[i];
            high[i] = a * sine[i] + b * cosine[i];
        }
        return;
    }
    for (int32_t i = 0; i < pairs; ++i) {
        const float a = head[2 * i];
        const float b = head[2 * i + 1];
        head[2 * i] = a * cosine[i] - b * sine[i];
        head[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

}  // namespace quire
