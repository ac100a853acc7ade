#include "index/edge_table.h"

#include <algorithm>
#include <bit>

#include <sys/mman.h>

#include "base/check.h"

namespace quire {

EdgeTable::EdgeTable(size_t expected_edges) {
    constexpr size_t kHugeBytes = 2 << 20;
    const size_t slots = std::bit_ceil(std::max<size_t>(expected_edges * 2, 64));
    const size_t unit = slots * sizeof(Entry) < kHugeBytes ? 64 : kHugeBytes;
    const size_t bytes = (slots * sizeof(Entry) + unit - 1) / unit * unit;
    entries_.reset(static_cast<Entry*>(std::aligned_alloc(unit, bytes)));
    QUIRE_CHECK(entries_ != nullptr, "out of memory");
    // Advice only: without huge pages the table works, with more TLB misses.
    if (bytes >= kHugeBytes) madvise(entries_.get(), bytes, MADV_HUGEPAGE);
    mask_ = slots - 1;
    std::fill_n(entries_.get(), slots, kEmpty);
}

void EdgeTable::insert(uint32_t block, uint32_t parent, const PrefixHash& hash) {
    size_t i = home_of(parent, hash);
    while (entries_[i].block != kNone) i = (i + 1) & mask_;
    entries_[i] = {block, parent, tag_of(hash)};
    ++size_;
}

}  // namespace quire
