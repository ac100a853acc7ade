// "ec:BITS": how ec is asked for wherever a codec is named.
#pragma once

#include <optional>
#include <string_view>

namespace quire::codec::ec {

inline constexpr double kEcBitsMin = 0.5, kEcBitsMax = 8;
inline constexpr std::string_view kEcPrefix = "ec:", kEcAlone = ":alone";

// At about so many bits a number, each layer foretold from the one before it where both are of one
// group, or none.
struct EcRate {
    double bits = 0;
    bool alone = false;
};

// "ec:BITS" or "ec:BITS:alone"; nothing: neither, or bits out of range.
std::optional<EcRate> ec_rate(std::string_view name);

}  // namespace quire::codec::ec
