#include "index/block_pool.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

int class_of(uint32_t length) {
    return std::bit_width(length) - 1;
}

// In the first position of a piece: hi = length << 32 | previous, lo = next. In its last: see
// first_of. A piece of one position needs both, so the start goes into the upper half of lo.
uint64_t pack(uint32_t high, uint32_t low) {
    return uint64_t{high} << 32 | low;
}
uint32_t high(uint64_t word) {
    return static_cast<uint32_t>(word >> 32);
}
uint32_t low(uint64_t word) {
    return static_cast<uint32_t>(word);
}

}  // namespace

BlockPool::BlockPool(PrefixHash* tags, uint32_t* owner, uint32_t capacity)
    : tags_(tags), owner_(owner), capacity_(capacity), free_blocks_(capacity) {
    heads_.fill(kNone);
}

uint32_t BlockPool::length_of(uint32_t first) const {
    return high(tags_[first].value.hi);
}
uint32_t BlockPool::first_of(uint32_t last) const {
    return high(tags_[last].value.lo);
}

void BlockPool::add_piece(uint32_t first, uint32_t length) {
    if (length == 0) return;
    const int c = class_of(length);
    const uint32_t next = heads_[c];
    tags_[first].value = {pack(length, kNone), pack(first, next)};
    if (length > 1) tags_[first + length - 1].value.lo = pack(first, kNone);
    if (next != kNone) tags_[next].value.hi = pack(length_of(next), first);
    heads_[c] = first;
}

void BlockPool::unlink_piece(uint32_t first) {
    const uint32_t previous = low(tags_[first].value.hi);
    const uint32_t next = low(tags_[first].value.lo);
    if (previous == kNone) {
        heads_[class_of(length_of(first))] = next;
    } else {
        tags_[previous].value.lo = pack(high(tags_[previous].value.lo), next);
    }
    if (next != kNone) tags_[next].value.hi = pack(length_of(next), previous);
}

void BlockPool::mark_used(uint32_t start, uint32_t length) {
    std::fill_n(owner_ + start, length, 0u);
    free_blocks_ -= length;
}

void BlockPool::take_from_piece(uint32_t first, uint32_t start, uint32_t length) {
    const uint32_t end = first + length_of(first);
    unlink_piece(first);
    add_piece(first, start - first);
    add_piece(start + length, end - start - length);
    mark_used(start, length);
}

BlockRun BlockPool::take_from_top(uint32_t length, uint32_t gap) {
    if (top_ == 0) gap = 0;
    if (capacity_ - top_ < gap + length) gap = 0;
    length = std::min(length, capacity_ - top_);
    if (gap > 0) {
        std::fill_n(owner_ + top_, gap, kFree);
        uint32_t first = top_;
        if (owner_[top_ - 1] == kFree) {
            first = first_of(top_ - 1);
            unlink_piece(first);
        }
        add_piece(first, top_ + gap - first);
    }
    const BlockRun run{top_ + gap, length};
    top_ += gap + length;
    peak_ = std::max(peak_, top_);
    mark_used(run.start, run.length);
    return run;
}

uint32_t BlockPool::find_piece(uint32_t at_least) const {
    // Every piece of this class or above is long enough, whichever comes first in its list.
    for (int c = std::bit_width(at_least - 1); c < kClasses; ++c) {
        if (heads_[c] != kNone) return heads_[c];
    }
    return kNone;
}

uint32_t BlockPool::largest_piece() const {
    for (int c = kClasses - 1; c >= 0; --c) {
        if (heads_[c] != kNone) return heads_[c];
    }
    return kNone;
}

BlockRun BlockPool::take(uint32_t want) {
    QUIRE_CHECK(want > 0, "an empty run");
    if (free_blocks_ == 0) return {};
    // The run before a piece keeps its room to grow, and so does the new one.
    const uint32_t roomy = find_piece(want + 2 * kGrowthBlocks);
    if (roomy != kNone) {
        take_from_piece(roomy, roomy + kGrowthBlocks, want);
        return {roomy + kGrowthBlocks, want};
    }
    if (capacity_ - top_ >= want) return take_from_top(want, kGrowthBlocks);
    // Nothing roomy is left: fill the gaps, whole runs first.
    const uint32_t fitting = find_piece(want);
    if (fitting != kNone) {
        take_from_piece(fitting, fitting, want);
        return {fitting, want};
    }
    const uint32_t largest = largest_piece();
    const uint32_t length = largest == kNone ? 0 : std::min(want, length_of(largest));
    if (length < capacity_ - top_) return take_from_top(want, 0);
    take_from_piece(largest, largest, length);
    return {largest, length};
}

uint32_t BlockPool::take_at(uint32_t at, uint32_t want) {
    if (at == top_) return at == capacity_ ? 0 : take_from_top(want, 0).length;
    if (at > top_ || owner_[at] != kFree) return 0;
    // `at` follows a used position, so it is the first of its piece.
    const uint32_t length = std::min(want, length_of(at));
    take_from_piece(at, at, length);
    return length;
}

void BlockPool::give(uint32_t at) {
    QUIRE_CHECK(at < top_ && owner_[at] != kFree, "a position that is not in use");
    owner_[at] = kFree;
    ++free_blocks_;
    uint32_t first = at;
    uint32_t end = at + 1;
    if (at > 0 && owner_[at - 1] == kFree) {
        first = first_of(at - 1);
        unlink_piece(first);
    }
    if (end == top_) {
        top_ = first;
        return;
    }
    if (owner_[end] == kFree) {
        unlink_piece(end);
        end += length_of(end);
    }
    add_piece(first, end - first);
}

Status BlockPool::check() const {
    uint64_t free_found = capacity_ - top_;
    uint64_t pieces = 0;
    for (uint32_t i = 0; i < top_;) {
        if (owner_[i] != kFree) {
            ++i;
            continue;
        }
        const uint32_t length = length_of(i);
        const uint32_t end = i + length;
        if (length == 0 || end >= top_ || owner_[end] == kFree || first_of(end - 1) != i) {
            return make_error(Code::bug, "free piece at " + std::to_string(i) + " is malformed", i);
        }
        for (uint32_t k = i; k < end; ++k) {
            if (owner_[k] != kFree) {
                return make_error(Code::bug, "free piece covers used block " + std::to_string(k),
                                  k);
            }
        }
        free_found += length;
        ++pieces;
        i = end;
    }
    if (free_found != free_blocks_) {
        return make_error(Code::bug, "free blocks counted " + std::to_string(free_found) +
                                         ", recorded " + std::to_string(free_blocks_));
    }
    uint64_t listed = 0;
    for (int c = 0; c < kClasses; ++c) {
        for (uint32_t p = heads_[c]; p != kNone && listed <= pieces; p = low(tags_[p].value.lo)) {
            ++listed;
            if (class_of(length_of(p)) != c) {
                return make_error(Code::bug, "free piece in the wrong list", p);
            }
        }
    }
    if (listed != pieces) return make_error(Code::bug, "free lists do not hold every piece once");
    return {};
}

}  // namespace quire
