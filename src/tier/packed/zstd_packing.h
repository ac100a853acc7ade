// Slabs as one zstd frame: for any pages; what it saves depends on them (docs/codecs.md).
#pragma once

#include <memory>

#include "tier/packed/slab_packing.h"

namespace quire {

std::shared_ptr<const SlabPacking> make_zstd_packing();

}  // namespace quire
