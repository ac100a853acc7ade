// The bytes of tests/golden/codec/ec.block: a model's section, a block that was coded with it, and
// the rows that the block gives. What goes in is K and V of the golden input.
#pragma once

#include <cstddef>
#include <vector>

#include "codec/ec/kernels.h"

namespace quire::codec {

// As those kernels write and read them. Empty: they cannot read what they wrote.
std::vector<std::byte> ec_vectors(const ec::Kernels& kernels);

}  // namespace quire::codec
