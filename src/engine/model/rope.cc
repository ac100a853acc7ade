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

namespace {

// `direction`: 1, or -1 for back. A loop for each style, without a question in it.
template <int direction>
void rotate(RopeStyle style, int32_t pairs, const float* table, float* head) {
    const float* cosine = table;
    const float* sine = table + pairs;
    const auto loop = [&](RopeStyle known) {
        for (int32_t i = 0; i < pairs; ++i) {
            const auto [x, y] = rope_dimensions(known, pairs, i);
            const float a = head[x];
            const float b = head[y];
            const float s = direction > 0 ? sine[i] : -sine[i];
            head[x] = a * cosine[i] - b * s;
            head[y] = a * s + b * cosine[i];
        }
    };
    style == RopeStyle::halves ? loop(RopeStyle::halves) : loop(RopeStyle::pairs);
}

}  // namespace

void rope_rotate(RopeStyle style, int32_t pairs, const float* table, float* head) {
    rotate<1>(style, pairs, table, head);
}

void rope_rotate_back(RopeStyle style, int32_t pairs, const float* table, float* head) {
    rotate<-1>(style, pairs, table, head);
}

}  // namespace quire
