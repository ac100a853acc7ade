// Between measured rates: at how many bits a codec has some divergence, and the other way round.
// Logarithms of divergences fall about linearly with bits. Pure.
#pragma once

#include <optional>
#include <vector>

namespace quire::bench {

struct Rate {
    double bits = 0;
    double divergence = 0;  // above 0
};

// The fewest bits above which no measured rate has more divergence than `divergence`. nullopt: the
// rates do not bracket it.
std::optional<double> bits_at(std::vector<Rate> rates, double divergence);
// nullopt: `bits` is outside the rates'.
std::optional<double> divergence_at(std::vector<Rate> rates, double bits);

}  // namespace quire::bench
