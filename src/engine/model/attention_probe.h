// Lets a measurement see what attention gives.
#pragma once

#include <cstdint>
#include <span>

namespace quire {

class AttentionProbe {
 public:
    virtual ~AttentionProbe() = default;
    // Once per layer of a step, in order, by one thread, while others wait. `out` is
    // [rows][n_heads head_dim] before the output projection, rows in the order of sequences and
    // tokens: all new ones, in the last layer those with logits. It is borrowed for the call.
    virtual void attended(uint32_t layer, std::span<const float> out) = 0;
};

}  // namespace quire
