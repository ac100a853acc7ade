#include "index/block_pool.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

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

BlockPool::BlockPool(PoolWords words, uint32_t* owner, uint32_t capacity)
    : words_(words), owner_(owner), capacity_(capacity), free_blocks_(capacity) {
    region_ = std::clamp(capacity / 32, 8u, 1024u);
}

int BlockPool::class_of(uint32_t length) const {
    return length >= region_ / 4 ? kClasses - 1 : (std::bit_width(length) - 1) / 2;
}

uint32_t BlockPool::length_of(uint32_t first) const {
    return high(words_.length_previous[first]);
}
uint32_t BlockPool::first_of(uint32_t last) const {
    return words_.first[last];
}

void BlockPool::add_piece(uint32_t first, uint32_t length) {
    if (length == 0) return;
    List& list = lists_[class_of(length)];
    words_.length_previous[first] = pack(length, list.tail);
    words_.next[first] = kNone;
    words_.first[first + length - 1] = first;
    if (list.tail == kNone) {
        list.head = first;
    } else {
        words_.next[list.tail] = first;
    }
    list.tail = first;
    ++list.size;
}

void BlockPool::unlink_piece(uint32_t first) {
    List& list = lists_[class_of(length_of(first))];
    const uint32_t previous = low(words_.length_previous[first]);
    const uint32_t next = words_.next[first];
    if (previous == kNone) {
        list.head = next;
    } else {
        words_.next[previous] = next;
    }
    if (next == kNone) {
        list.tail = previous;
    } else {
        words_.length_previous[next] = pack(length_of(next), previous);
    }
    --list.size;
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

BlockRun BlockPool::take_from_top(uint32_t length, uint32_t claim) {
    const BlockRun run{top_, length};
    const uint32_t end = top_ + length;
    top_ += claim;
    peak_ = std::max(peak_, top_);
    mark_used(run.start, length);
    std::fill_n(owner_ + end, claim - length, kFree);
    add_piece(end, claim - length);
    return run;
}

uint32_t BlockPool::roomiest_piece() const {
    for (int c = kClasses - 1; c >= 0; --c) {
        if (lists_[c].head != kNone) return lists_[c].head;
    }
    return kNone;
}

BlockRun BlockPool::take(uint32_t want) {
    QUIRE_CHECK(want > 0, "an empty run");
    if (free_blocks_ == 0) return {};
    const uint32_t above = capacity_ - top_;
    if (above >= std::max(want, region_) && lists_[kClasses - 1].size < kRotation) {
        return take_from_top(want, std::max(want, region_));
    }
    const uint32_t piece = roomiest_piece();
    const uint32_t length = piece == kNone ? 0 : std::min(want, length_of(piece));
    if (length < want && length < above) {
        const uint32_t taken = std::min(want, above);
        return take_from_top(taken, taken);
    }
    take_from_piece(piece, piece, length);
    return {piece, length};
}

uint32_t BlockPool::take_at(uint32_t at, uint32_t want) {
    if (at == top_) {
        const uint32_t length = std::min(want, capacity_ - top_);
        return length == 0 ? 0 : take_from_top(length, length).length;
    }
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
        const bool joined = end >= top_ || owner_[end] != kFree;
        if (length == 0 || end > top_ || !joined || first_of(end - 1) != i) {
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
        for (uint32_t p = lists_[c].head; p != kNone && listed <= pieces; p = words_.next[p]) {
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
