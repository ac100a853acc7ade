#include "index/edge_table.h"

#include <algorithm>
#include <bit>

namespace quire {

EdgeTable::EdgeTable(size_t expected_edges)
    : entries_(std::bit_ceil(std::max<size_t>(expected_edges * 2, 64)), kNone),
      mask_(entries_.size() - 1) {}

}  // namespace quire
