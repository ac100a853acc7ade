// Rotary position embedding: angles in double, rounded once, so that a position's table is the same
// wherever it is computed.
#pragma once

#include <cstdint>
#include <span>
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

// Rotates one head in place by a filled table.
void rope_rotate(RopeStyle style, int32_t pairs, const float* table, float* head);

}  // namespace quire
