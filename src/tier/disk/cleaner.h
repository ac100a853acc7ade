// Cleaner: frees one segment, saving what is worth it into the active one. Runs on the writer's
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "tier/disk/active_segment.h"
#include "tier/disk/cleaning.h"
#include "tier/disk/index_log.h"
#include "tier/disk/store_state.h"

namespace quire {

class Cleaner {
 public:
    Cleaner(StoreState& state, IndexLog& log) : state_(state), log_(log) {}

    // Moves the most valuable slabs of `victim`, at most `budget_units` of them, behind what
    // `active` holds, drops the rest (and what builds on it), journals both and deletes the file.
    // Reads and writes at most the budget. On error the segment stays, and so does every slab not
    // yet moved.
    Status clean(uint32_t victim, ActiveSegment& active, uint32_t budget_units);

 private:
    struct Move {
        BlockKey key;
        DiskPlace from;
        DiskPlace to;
        Slot slot;
        std::span<std::byte> bytes;
    };

    CleaningPlan plan(uint32_t victim, uint32_t budget_units, std::vector<Move>& moves,
                      std::vector<IndexRecord>& erased) const;
    Status move_all(std::span<Move> moves, ActiveSegment& active);
    Status move_chunk(std::span<Move> moves, ActiveSegment& active, std::span<std::byte> buffer);
    Status read_chunk(std::span<Move> moves, std::span<std::byte> buffer);
    Status write_chunk(std::vector<Move>& sound, ActiveSegment& active);
    Status publish(const std::vector<Move>& moved);

    StoreState& state_;
    IndexLog& log_;
};

}  // namespace quire
