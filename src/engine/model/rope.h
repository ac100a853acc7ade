// Rotary position embedding: angles in double, rounded once, so that a position's table is the same
// wherever it is computed.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/model/hparams.h"

namespace quire {

class RopeTable {
 public:
    // factors: divisors of the frequencies [rope_dim / 2], or nullptr.
    RopeTable(int32_t rope_dim, double base, double position_scale, const float* factors);

    int32_t pairs() const { return static_cast<int32_t>(frequencies_.size()); }
    // cos and sin of each pair at a position: out[0..pairs) and out[pairs..2 pairs).
    void fill(int32_t position, float* out) const;

 private:
    std::vector<double> frequencies_;
};

// The two dimensions of a head that RoPE rotates as its pair `i` of `pairs`.
constexpr std::pair<int32_t, int32_t> rope_dimensions(RopeStyle style, int32_t pairs, int32_t i) {
    if (style == RopeStyle::halves) return {i, i + pairs};
    return {2 * i, 2 * i + 1};
}

// Rotates one head in place by a filled table.
void rope_rotate(RopeStyle style, int32_t pairs, const float* table, float* head);
// The other way round.
void rope_rotate_back(RopeStyle style, int32_t pairs, const float* table, float* head);

}  // namespace quire
