// BlockPool: hands out runs of consecutive block positions out of [0, capacity).
//
// Runs of a radix tree want to be contiguous and to grow at their end, so the pool leaves a gap
// (kGrowthBlocks) between runs while it has room, and extends a run in place when the positions
// after it are free. Free positions form pieces, coalesced at once, in one list per power of two;
// the list lives inside the free positions' own words (`tags`), so the pool needs no memory of its
// own. Positions never handed out lie above top(). All verbs are O(1) but for a scan of 32 class
// heads.
//
// Deterministic. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "core/hash128.h"

namespace quire {

struct BlockRun {
    uint32_t start = 0;
    uint32_t length = 0;  // 0: nothing is free
};

class BlockPool {
 public:
    static constexpr uint32_t kGrowthBlocks = 8;
    static constexpr uint32_t kFree = ~uint32_t{0};

    // Borrows two arrays of `capacity` elements that the caller shares with blocks in use: `tags`
    // is the pool's only while a position is free; `owner[i]` is kFree exactly while i < top() is
    // free.
    BlockPool(PrefixHash* tags, uint32_t* owner, uint32_t capacity);

    // Up to `want` consecutive positions, as many as there are in one piece. REQUIRES: want > 0.
    BlockRun take(uint32_t want);
    // Takes up to `want` positions starting exactly at `at`; returns how many (0 if `at` is in
    // use).
    uint32_t take_at(uint32_t at, uint32_t want);
    // Gives one position back.
    void give(uint32_t at);

    uint32_t free_blocks() const { return free_blocks_; }
    uint32_t top() const { return top_; }
    uint32_t peak() const { return peak_; }
    // Walks every piece and list; bug if a position is lost, doubly listed or not coalesced.
    Status check() const;

 private:
    static constexpr uint32_t kNone = ~uint32_t{0};
    static constexpr int kClasses = 32;

    // A piece's first position holds its length and list links, its last position its start.
    uint32_t length_of(uint32_t first) const;
    uint32_t first_of(uint32_t last) const;
    void add_piece(uint32_t first, uint32_t length);
    void unlink_piece(uint32_t first);
    void take_from_piece(uint32_t first, uint32_t start, uint32_t length);
    BlockRun take_from_top(uint32_t length, uint32_t gap);
    uint32_t find_piece(uint32_t at_least) const;
    uint32_t largest_piece() const;
    void mark_used(uint32_t start, uint32_t length);

    PrefixHash* tags_;
    uint32_t* owner_;
    uint32_t capacity_;
    uint32_t top_ = 0;
    uint32_t peak_ = 0;
    uint32_t free_blocks_;
    std::array<uint32_t, kClasses> heads_;
};

}  // namespace quire
