// BlockPool: hands out runs of consecutive block positions out of [0, capacity).
//
// Runs of a radix tree want to be contiguous and to grow at their end. So a new run is put at the
// start of the roomiest free piece, the least lately used one among equals, and several roomy
// pieces are kept in rotation: sequences that grow in turn then do not stand in each other's way.
// Free positions form pieces, coalesced at once, in one list per power of two; the lists live
// inside the free positions' own words, so the pool needs no memory of its own. Positions never
// handed out lie above top(). All verbs are O(1) but for a scan of 32 class heads.
//
// Deterministic. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"

namespace quire {

struct BlockRun {
    uint32_t start = 0;
    uint32_t length = 0;  // 0: nothing is free
};

// What a free position is described with; a piece uses those of its first and last position.
struct PoolWords {
    uint64_t* length_previous = nullptr;  // first: length << 32 | the piece before it in its list
    uint32_t* next = nullptr;             // first: the piece after it in its list
    uint32_t* first = nullptr;            // last: where the piece starts
};

class BlockPool {
 public:
    static constexpr uint32_t kFree = ~uint32_t{0};

    // Borrows two arrays of `capacity` elements that the caller shares with blocks in use: `tags`
    // is the pool's only while a position is free; `owner[i]` is kFree exactly while i < top() is
    // free.
    BlockPool(PoolWords words, uint32_t* owner, uint32_t capacity);

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
    static constexpr int kClasses = 17;  // lengths by powers of four, and one for all roomy ones
    static constexpr uint32_t kRotation = 16;  // roomy pieces to keep while the top has some

    int class_of(uint32_t length) const;
    uint32_t length_of(uint32_t first) const;
    uint32_t first_of(uint32_t last) const;
    void add_piece(uint32_t first, uint32_t length);
    void unlink_piece(uint32_t first);
    void take_from_piece(uint32_t first, uint32_t start, uint32_t length);
    // Takes `length` positions from the top, which rises by `claim` >= length; the rest becomes a
    // piece.
    BlockRun take_from_top(uint32_t length, uint32_t claim);
    uint32_t roomiest_piece() const;
    void mark_used(uint32_t start, uint32_t length);

    PoolWords words_;
    uint32_t* owner_;
    uint32_t capacity_;
    uint32_t top_ = 0;
    uint32_t peak_ = 0;
    uint32_t free_blocks_;
    uint32_t region_;  // claimed from the top at once; a quarter of it is roomy
    struct List {
        uint32_t head = kNone;
        uint32_t tail = kNone;
        uint32_t size = 0;
    };
    std::array<List, kClasses> lists_;
};

}  // namespace quire
