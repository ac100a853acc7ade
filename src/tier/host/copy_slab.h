// Copying a slab and checking it in one pass.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace quire {

// Copies `from` to `to` (same size) and verifies what was written, as verify_slab does. Layer by
// layer, so that the check reads from the first-level cache. On error the bytes of `to` mean
// nothing.
Status copy_slab_verified(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace quire
