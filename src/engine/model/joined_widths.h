// A schedule's widths, made so few that a layout can hold a group of codes for each pair.
#pragma once

#include <vector>

#include "codec/sidecar.h"
#include "core/kv_layout.h"

namespace quire {

// `bits` are those of each model layer; `exact` ones, ascending, have none and take a group for
// each of the plain layout's that has some. The groups that are left then are shared equally by the
// plain layout's, for as many pairs of widths: the two whose union costs the fewest bits are
// joined, again and again, at the larger width of each side. So no layer loses a bit.
std::vector<codec::LayerBits> join_widths(std::vector<codec::LayerBits> bits,
                                          const KvLayout& layout,
                                          const std::vector<uint16_t>& exact = {});

}  // namespace quire
