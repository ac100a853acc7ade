#include "codec/ec/rans.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace quire::codec::ec {

RansTable::RansTable(const Frequencies& frequencies) : frequency_(frequencies) {
    uint32_t sum = 0;
    for (uint32_t s = 0; s < kSymbols; ++s) {
        const uint32_t frequency = frequency_[s];
        QUIRE_CHECK(frequency > 0 && sum + frequency <= kProbabilities,
                    "frequencies that are no distribution");
        first_[s] = static_cast<uint16_t>(sum);
        // 2^more is at least the frequency, so rounding the reciprocal up adds less than
        // 1 / frequency to a quotient: not enough to reach the next whole number.
        const auto more = static_cast<uint32_t>(std::bit_width(frequency - 1));
        symbols_[s] = sum | frequency << kFrequencyShift | more << kMoreShift;
        reciprocals_[s] = static_cast<uint32_t>(
            ((uint64_t{1} << (kStateBits + more)) + frequency - 1) / frequency);
        for (uint32_t i = 0; i < frequency; ++i)
            slots_[sum + i] = i | frequency << kFrequencyShift | s << kSymbolShift;
        sum += frequency;
    }
    QUIRE_CHECK(sum == kProbabilities, "frequencies that are no distribution");
}

RansTable::Frequencies RansTable::fit(const std::array<double, kSymbols>& counts) {
    double total = 0;
    for (const double c : counts) total += c;
    Frequencies out;
    int32_t left = kProbabilities;
    for (uint32_t s = 0; s < kSymbols; ++s) {
        const double share = total > 0 ? counts[s] / total : 1.0 / kSymbols;
        out[s] = static_cast<uint16_t>(std::max(1.0, std::floor(share * kProbabilities)));
        left -= out[s];
    }
    // What rounding left, or took too much, is the most frequent symbol's.
    uint16_t& top = *std::ranges::max_element(out);
    top = static_cast<uint16_t>(top + left);
    return out;
}

double RansTable::cost_bits(uint32_t symbol) const {
    return kProbabilityBits - std::log2(static_cast<double>(frequency_[symbol]));
}

double RansTable::entropy_bits() const {
    double bits = 0;
    for (uint32_t s = 0; s < kSymbols; ++s) bits += frequency_[s] * cost_bits(s) / kProbabilities;
    return bits;
}

}  // namespace quire::codec::ec
