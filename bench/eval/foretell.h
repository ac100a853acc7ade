// Learns to foretell rows of numbers from those that were decoded before. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "bench/eval/ridge.h"

namespace quire::bench {

// Tokens of every second span learn what the others are foretold by, and the other way round: what
// is then left over is as large as on text that was not seen.
class Foreteller {
 public:
    explicit Foreteller(size_t tokens);

    // Rows [tokens][dims] as decoded, less their mean: inputs of all that follows.
    void add(std::span<const float> rows, size_t dims);
    size_t inputs() const { return inputs_; }
    // Replaces rows [tokens][dims] by what is left of them; returns weights [inputs][dims], learned
    // from all tokens.
    std::vector<float> foretell(std::span<float> rows, size_t dims) const;

 private:
    size_t tokens_;
    size_t inputs_ = 0;
    std::vector<std::vector<double>> rows_;  // [tokens][inputs]
    std::array<Ridge, 3> ridges_;            // of one half, of the other, of both
};

}  // namespace quire::bench
