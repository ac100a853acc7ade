// ec over slabs: pages to rows, keys turned back to before RoPE, coded; and back. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "engine/model/cold_packing.h"

namespace quire {

inline constexpr double kEcBitsMin = 0.5, kEcBitsMax = 8;

// How ec codes: at about so many bits a number, each layer foretold from the one before it where
// both are of one group, or none.
struct EcRate {
    double bits = 0;
    bool alone = false;
};
inline constexpr std::string_view kEcPrefix = "ec:", kEcAlone = ":alone";

// "ec:BITS" or "ec:BITS:alone"; null: neither, or bits out of range.
std::optional<EcRate> ec_rate(std::string_view name);

// REQUIRES: of.sidecar. invalid: more bits than its steps give; miss: the sidecar has nothing for
// ec; unsupported: heads whose size ec does not code.
Result<std::shared_ptr<const SlabPacking>> make_ec_packing(const ColdModel& of, EcRate rate);

}  // namespace quire
