// Catalog: which slabs and segments a disk store holds, and which of them it values least.
//
// Pure bookkeeping: no file is touched here. Readers share `mutex()`; everything that changes the
// set of slabs takes it exclusively and briefly, never across I/O. Values decay by *rounds*: one
// round passes whenever a sixteenth of the store has been written, so that age is measured in
// traffic and not in time, and needs no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "tier/disk/slot_map.h"

namespace quire {

struct SegmentState {
    uint32_t id = 0;
    uint64_t file_bytes = 0;  // what the file takes on disk
    uint32_t end_units = 1;   // filled so far; the header is unit 0
    uint32_t live_units = 0;
    bool sealed = false;      // nothing will be appended any more
    std::vector<Slot> slots;  // every slab ever published here; stale ones no longer point back
};

class Catalog {
 public:
    std::shared_mutex& mutex() const { return mutex_; }

    // --- with the mutex held, shared or exclusive
    Slot find(const BlockKey& key) const { return map_.find(key); }
    const SlotEntry& at(Slot slot) const { return map_.at(slot); }
    const SlotMap& map() const { return map_; }
    const std::map<uint32_t, SegmentState>& segments() const { return segments_; }
    uint64_t live_bytes() const { return live_units_ * kUnit; }
    // Counts a read.
    void touch(Slot slot) const { map_.touch(slot, tick()); }
    // What one slab is worth keeping now: its value, more the more often and the later it was read.
    double slab_score(Slot slot) const;
    // Read within a quarter of the store's turnover: worth a copy when its segment goes.
    bool hot(Slot slot) const;
    // The sealed segment that costs least for what it frees: the value of what would be lost (what
    // is hot would be moved, at the price of a copy) over the space won. Looks closely at a bounded
    // number of candidates, the oldest and the emptiest. Nothing when no segment is sealed.
    std::optional<uint32_t> least_valuable() const;

    // --- with the mutex held exclusively
    void add_segment(uint32_t id, uint64_t file_bytes, bool sealed);
    void seal_segment(uint32_t id, uint64_t file_bytes);
    // Forgets the segment and every slab that still lies in it; returns how many those were.
    size_t drop_segment(uint32_t id);
    // REQUIRES: the segment is known. A key that is live already moves to `place`.
    Slot publish(const BlockKey& key, const BlockKey& parent, const DiskPlace& place,
                 uint32_t value);
    // A live slab now lies at `place`; its use counts for half.
    void move(Slot slot, const DiskPlace& place);
    void erase(Slot slot);
    void set_hits(Slot slot, uint8_t hits) { map_.set_use(slot, hits, tick()); }
    void reserve(size_t slabs) { map_.reserve(slabs); }
    // `bytes` more were written; with the store's capacity this drives the rounds.
    void advance(uint64_t bytes, uint64_t capacity_bytes);

    uint8_t tick() const { return static_cast<uint8_t>(round_); }
    uint32_t round() const { return round_; }
    void clear();

 private:
    static constexpr uint64_t kUnit = 4096;

    std::vector<const SegmentState*> candidates() const;
    double cleaning_cost(const SegmentState& segment) const;
    void account(SegmentState& segment, const SlotEntry& entry, int sign);

    mutable std::shared_mutex mutex_;
    SlotMap map_;
    std::map<uint32_t, SegmentState> segments_;
    uint64_t live_units_ = 0;
    uint32_t round_ = 0;
    uint64_t round_bytes_ = 0;
};

}  // namespace quire
