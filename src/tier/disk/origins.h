// Whose slabs a directory holds, found out by looking at a few of them.
//
// The index names slabs by keys, which tell nothing about the model. Headers do: of a bounded
// number of segments, spread over all, the first and the last slab are asked. A process fills
// segments of its own, so that another model's past is mostly found; what is not found costs an
// explanation.
#pragma once

#include <vector>

#include "tier/disk/catalog.h"
#include "tier/disk/dir.h"
#include "tier/tier.h"

namespace quire {

// Each origin once, at most a handful. REQUIRES: nobody changes the catalog meanwhile.
std::vector<SlabOrigin> sample_origins(const DiskDir& dir, const Catalog& catalog);

}  // namespace quire
