#include "bench/eval/crossing.h"

#include <algorithm>
#include <cmath>

namespace quire::bench {
namespace {

void sort(std::vector<Rate>* rates) {
    std::erase_if(*rates, [](const Rate& rate) { return !(rate.divergence > 0); });
    std::ranges::sort(*rates, {}, &Rate::bits);
}

}  // namespace

std::optional<double> bits_at(std::vector<Rate> rates, double divergence) {
    if (!(divergence > 0)) return std::nullopt;
    sort(&rates);
    for (size_t i = rates.size(); i-- > 0;) {
        if (rates[i].divergence == divergence) return rates[i].bits;
        if (rates[i].divergence < divergence) continue;
        if (i + 1 == rates.size()) return std::nullopt;  // even the most bits do not reach it
        const Rate &below = rates[i], &above = rates[i + 1];
        const double share =
            std::log(below.divergence / divergence) / std::log(below.divergence / above.divergence);
        return below.bits + share * (above.bits - below.bits);
    }
    return std::nullopt;
}

std::optional<double> divergence_at(std::vector<Rate> rates, double bits) {
    sort(&rates);
    for (size_t i = 0; i < rates.size(); ++i) {
        if (rates[i].bits == bits) return rates[i].divergence;
        if (rates[i].bits < bits) continue;
        if (i == 0) return std::nullopt;
        const Rate &below = rates[i - 1], &above = rates[i];
        const double share = (bits - below.bits) / (above.bits - below.bits);
        return below.divergence * std::pow(above.divergence / below.divergence, share);
    }
    return std::nullopt;
}

}  // namespace quire::bench
