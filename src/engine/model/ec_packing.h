// ec over slabs: pages to rows, keys turned back to before RoPE, coded; and back. Any thread.
#pragma once

#include <memory>

#include "codec/ec/rate.h"
#include "engine/model/cold_packing.h"

namespace quire {

using codec::ec::ec_rate;
using codec::ec::EcRate;
using codec::ec::kEcAlone;
using codec::ec::kEcBitsMax;
using codec::ec::kEcBitsMin;
using codec::ec::kEcPrefix;

// REQUIRES: of.sidecar. invalid: more bits than its steps give; miss: the sidecar has nothing for
// ec; unsupported: heads whose size ec does not code.
Result<std::shared_ptr<const SlabPacking>> make_ec_packing(const ColdModel& of, EcRate rate);

}  // namespace quire
