// ec over slabs: pages to rows, keys turned back to before RoPE, coded; and back. Any thread.
#pragma once

#include <memory>

#include "engine/model/cold_packing.h"

namespace quire {

inline constexpr double kEcBitsMin = 0.5, kEcBitsMax = 8;

// REQUIRES: of.sidecar. invalid: more bits than its steps give; miss: the sidecar has nothing for
// ec; unsupported: it was learned for chains of layers that are not this layout's groups.
Result<std::shared_ptr<const SlabPacking>> make_ec_packing(const ColdModel& of, double bits);

}  // namespace quire
