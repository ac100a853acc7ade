#include "policy/ghost_set.h"

#include <algorithm>
#include <bit>

namespace quire {

GhostSet::GhostSet(uint32_t capacity)
    : ring_(std::max(capacity, 1u)),
      live_(ring_.size()),
      table_(std::bit_ceil(ring_.size() * 2), kNone),
      mask_(table_.size() - 1) {}

// The entry of `word`, or the empty one that ends its probe.
size_t GhostSet::find(uint64_t word) const {
    size_t i = word & mask_;
    while (table_[i] != kNone && ring_[table_[i]] != word) i = (i + 1) & mask_;
    return i;
}

void GhostSet::erase_entry(size_t hole) {
    live_[table_[hole]] = false;
    for (size_t i = (hole + 1) & mask_; table_[i] != kNone; i = (i + 1) & mask_) {
        const size_t home = ring_[table_[i]] & mask_;
        if (((i - home) & mask_) >= ((i - hole) & mask_)) {
            table_[hole] = table_[i];
            hole = i;
        }
    }
    table_[hole] = kNone;
    --size_;
}

void GhostSet::add(const Hash128& hash) {
    const size_t old = find(hash.lo);
    if (table_[old] != kNone) erase_entry(old);
    if (live_[next_]) erase_entry(find(ring_[next_]));
    ring_[next_] = hash.lo;
    live_[next_] = true;
    table_[find(hash.lo)] = next_;
    next_ = next_ + 1 == ring_.size() ? 0 : next_ + 1;
    ++size_;
}

bool GhostSet::take(const Hash128& hash) {
    const size_t at = find(hash.lo);
    if (table_[at] == kNone) return false;
    erase_entry(at);
    return true;
}

}  // namespace quire
