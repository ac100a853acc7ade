// Slabs of plain bf16 pages with their exponents in a prefix code (codec/bx/README.md).
#pragma once

#include <memory>

#include "base/result.h"
#include "core/kv_layout.h"
#include "tier/packed/slab_packing.h"

namespace quire {

// unsupported: the layout's pages are not bf16, or too large.
Result<std::shared_ptr<const SlabPacking>> make_bx_packing(const KvLayout& layout);

}  // namespace quire
