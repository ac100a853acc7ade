// A schedule's widths, made so few that a layout can hold a group of codes for each pair.
#pragma once

#include <vector>

#include "codec/sidecar.h"
#include "core/kv_layout.h"

namespace quire {

// `bits` are those of each model layer. In each of the plain layout's groups at most
// (kMaxGroups - groups) / groups pairs of widths are left: the two whose union costs the fewest
// bits are joined, again and again, at the larger width of each side. So no layer loses a bit.
std::vector<codec::LayerBits> join_widths(std::vector<codec::LayerBits> bits,
                                          const KvLayout& layout);

}  // namespace quire
