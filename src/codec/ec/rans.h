// Interleaved rANS with static tables: four states take turns, so that a decoder has four
// dependency chains at once. Probabilities are in 4096ths, states renormalise by 16 bits.
//
// A stream is the four final states (32 bits each), then 16-bit words, little-endian. Symbols come
// out in the order in which they went in. Plain values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire::codec::ec {

inline constexpr uint32_t kProbabilityBits = 12;
inline constexpr uint32_t kProbabilities = 1u << kProbabilityBits;
inline constexpr uint32_t kSymbols = 49;  // -24 to 24
inline constexpr int32_t kLargest = 24;   // and beyond: an escape follows elsewhere
inline constexpr size_t kStateBytes = 16;

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
    // The symbol whose range holds `slot` (below kProbabilities).
    uint32_t symbol_at(uint32_t slot) const { return by_slot_[slot]; }
    double entropy_bits() const;
    double cost_bits(uint32_t symbol) const;

 private:
    Frequencies frequency_;
    std::array<uint16_t, kSymbols> first_;
    std::array<uint8_t, kProbabilities> by_slot_;
};

struct CodedSymbol {
    uint8_t symbol = 0;
    const RansTable* table = nullptr;
};

// Appends the stream to `out`.
void rans_encode(std::span<const CodedSymbol> symbols, std::vector<std::byte>* out);

// Reads symbols one after the other. Any bytes give some symbols; nothing outside them is read.
class RansReader {
 public:
    explicit RansReader(std::span<const std::byte> stream);
    uint32_t next(const RansTable& table);
    // Bytes of the stream that were read so far.
    size_t used_bytes() const { return at_; }
    // After the last symbol: every state is the one that the encoder began with, and no word was
    // missing. So nearly every stream that was not meant for these tables is found out.
    bool ended_well() const;

 private:
    uint32_t word();

    std::span<const std::byte> stream_;
    size_t at_ = 0;
    std::array<uint32_t, 4> states_;
    uint32_t turn_ = 0;
    bool short_ = false;
};

}  // namespace quire::codec::ec
