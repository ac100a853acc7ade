// The bytes of tests/golden/codec/mla.rows: sixteen tokens each of V3.2 with scales that are powers
// of two, V3.2 with exact ones, and one block of V4. What goes in is K of the golden input.
#pragma once

#include <cstddef>
#include <vector>

namespace quire::codec {

std::vector<std::byte> mla_vectors();

}  // namespace quire::codec
