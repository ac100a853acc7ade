// The names of the places a block can be in, used alike in code, metrics and docs.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

enum class Tier : uint8_t {
    g1,   // what attention reads: GPU memory, or the engine's arena on a CPU
    g2,   // host memory
    g3,   // local disk
    g35,  // network flash
    g4,   // object storage
};
inline constexpr int kTierCount = 5;

constexpr std::string_view tier_name(Tier tier) {
    constexpr std::string_view kNames[kTierCount] = {"g1", "g2", "g3", "g3.5", "g4"};
    return kNames[static_cast<int>(tier)];
}

// A set of tiers, one bit each.
class TierSet {
 public:
    constexpr TierSet() = default;
    constexpr void add(Tier tier) { bits_ |= bit(tier); }
    constexpr void remove(Tier tier) { bits_ &= static_cast<uint8_t>(~bit(tier)); }
    constexpr bool has(Tier tier) const { return (bits_ & bit(tier)) != 0; }
    constexpr bool empty() const { return bits_ == 0; }
    constexpr uint8_t bits() const { return bits_; }
    friend constexpr bool operator==(TierSet, TierSet) = default;

 private:
    static constexpr uint8_t bit(Tier tier) {
        return static_cast<uint8_t>(1u << static_cast<int>(tier));
    }
    uint8_t bits_ = 0;
};

}  // namespace quire
