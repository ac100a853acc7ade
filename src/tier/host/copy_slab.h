// Copying slabs and checking them in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace quire {

// Copies `from` to `to` (same size) and verifies what was written, as verify_slab does. Layer by
// layer, so that the check reads from the first-level cache. On error the bytes of `to` mean
// nothing.
Status copy_slab_verified(std::span<const std::byte> from, std::span<std::byte> to);

// The same for layers [first, end) alone, with the header when first is 0 and the padding after
// the last layer. A slab copied in pieces is sound when all of them were; they may be copied in any
// order and at the same time.
Status copy_slab_layers(std::span<const std::byte> from, std::span<std::byte> to, uint32_t first,
                        uint32_t end);

}  // namespace quire
