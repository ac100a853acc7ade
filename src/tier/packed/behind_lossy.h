// How a tier packs what may stand on numbers that the packing of a tier above it changed.
//
// A block that is computed behind a prefix from a lossy tier is not what others would compute, and
// a tier that outlives the process must say so of whatever it stores.
#pragma once

#include <memory>

#include "tier/packed/slab_packing.h"

namespace quire {

// `packing` (null: none) where nothing above loses anything, or where that is the same packing.
// Otherwise one that packs alike and whose slabs also name `above`, so that only who has both reads
// them; what `packing` alone wrote is read too. Without a packing, slabs stay as they are, marked
// as those that `above` leaves as they are, and what comes down packed by it is stored so.
std::shared_ptr<const SlabPacking> pack_behind(std::shared_ptr<const SlabPacking> packing,
                                               std::shared_ptr<const SlabPacking> above);

}  // namespace quire
