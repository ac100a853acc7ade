// Interleaved rANS with static tables. Probabilities are in 4096ths; states hold 31 bits and are
// renormalised by 16. Symbols come in runs of up to kLanes, one for each state of a group, and runs
// take turns between the groups; so a decoder has vectors of states, and several chains of them.
// Symbols come out in the order in which they went in. Plain values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quire::codec::ec {

inline constexpr uint32_t kProbabilityBits = 12;
inline constexpr uint32_t kProbabilities = 1u << kProbabilityBits;
inline constexpr uint32_t kSymbols = 49;  // -24 to 24
inline constexpr int32_t kLargest = 24;   // and beyond: an escape follows elsewhere
inline constexpr uint8_t kZeroSymbol = kLargest;

inline constexpr uint32_t kLanes = 16;  // states of a group
inline constexpr uint32_t kGroups = 4;  // that take turns
inline constexpr uint32_t kStates = kLanes * kGroups;
inline constexpr uint32_t kStateLow = 1u << 15;  // states are that or more between symbols
// From this on times the frequency a state gives 16 bits away before it takes the symbol.
inline constexpr uint32_t kStateBits = 31;
inline constexpr uint32_t kFullShift = kStateBits - kProbabilityBits;

// A distribution of symbols. Every symbol can be coded.
class RansTable {
 public:
    using Frequencies = std::array<uint16_t, kSymbols>;
    // REQUIRES: all above zero, kProbabilities in sum.
    explicit RansTable(const Frequencies& frequencies);

    // Frequencies in 4096ths, nearest to the counts, none below 1.
    static Frequencies fit(const std::array<double, kSymbols>& counts);

    uint32_t frequency(uint32_t symbol) const { return frequency_[symbol]; }
    uint32_t first(uint32_t symbol) const { return first_[symbol]; }
    double entropy_bits() const;
    double cost_bits(uint32_t symbol) const;

    // By slot, the low bits of a state: how far the slot is in its symbol's range, the symbol's
    // frequency from bit 12 on, the symbol from bit 24 on.
    static constexpr uint32_t kFrequencyShift = 12, kSymbolShift = 24, kFieldMask = 0xfff;
    [[gnu::always_inline]] const uint32_t* slots() const { return slots_; }
    // By symbol, kSymbolsPadded of them: where its range begins, its frequency from bit 12 on, and
    // from bit 24 on `more`, by which a quotient is shifted: a state below 2^31 over the frequency
    // is state * reciprocal >> (31 + more), exactly.
    static constexpr uint32_t kMoreShift = 24, kSymbolsPadded = 64;
    [[gnu::always_inline]] const uint32_t* symbols() const { return symbols_; }
    [[gnu::always_inline]] const uint32_t* reciprocals() const { return reciprocals_; }

 private:
    Frequencies frequency_;
    std::array<uint16_t, kSymbols> first_;
    alignas(64) uint32_t symbols_[kSymbolsPadded] = {};
    uint32_t reciprocals_[kSymbolsPadded] = {};
    uint32_t slots_[kProbabilities];
};

}  // namespace quire::codec::ec
