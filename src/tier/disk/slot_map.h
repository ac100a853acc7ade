// SlotMap: what a disk store knows about each slab, in at most 64 bytes a slab.
//
// Dense 48-byte entries in fixed chunks (never moved, so that growth copies nothing but the table),
// and an open-addressing table of 4-byte slot numbers beside them. Entries form a forest by parent,
// because a prefix is only useful whole: a parent must not leave before its children. A parent that
// is not (or no longer) held while a child is gets a *ghost* entry: a name without a place. Not
// thread-safe; touch() alone may run beside other readers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/hash128.h"

namespace quire {

using Slot = uint32_t;
inline constexpr Slot kNoSlot = UINT32_MAX;

// Where a slab lies on disk; sizes in units of 4 KiB.
struct DiskPlace {
    uint32_t segment = 0;
    uint32_t offset_units = 0;
    uint16_t units = 0;  // 0: a ghost
    friend bool operator==(const DiskPlace&, const DiskPlace&) = default;
};

struct SlotEntry {
    BlockKey key;
    uint32_t segment = 0;
    uint32_t offset_units = 0;
    Slot parent = kNoSlot;
    Slot first_child = kNoSlot;
    Slot next_sibling = kNoSlot;
    Slot prev_sibling = kNoSlot;
    uint16_t units = 0;
    uint16_t value = 0;
    uint8_t hits = 0;  // saturating; halved when the slab is moved
    uint8_t tick = 0;  // the store's age counter at the last use, modulo 256
    uint8_t reserved[2] = {};

    bool live() const { return units != 0; }
    // Readers count uses under a shared lock, so these two are read as they are written.
    uint8_t hits_now() const { return load(hits); }
    uint8_t tick_now() const { return load(tick); }
    DiskPlace place() const { return {segment, offset_units, units}; }

 private:
    static uint8_t load(const uint8_t& field) {
        return std::atomic_ref<uint8_t>(const_cast<uint8_t&>(field))
            .load(std::memory_order_relaxed);
    }
};
static_assert(sizeof(SlotEntry) == 48);

class SlotMap {
 public:
    SlotMap();

    // The live entry of `key`, or kNoSlot.
    Slot find(const BlockKey& key) const;
    const SlotEntry& at(Slot slot) const { return chunks_[slot / kChunk][slot % kChunk]; }

    // REQUIRES: `key` is not live, place.units > 0. A zero or own parent key means a root.
    Slot insert(const BlockKey& key, const BlockKey& parent_key, const DiskPlace& place,
                uint32_t value);
    // REQUIRES: live. The new place of a slab that was moved.
    void relocate(Slot slot, const DiskPlace& place);
    // REQUIRES: live. Leaves a ghost while children remain; frees ghosts that nobody needs any
    // more.
    void remove(Slot slot);
    // Counts a use. Safe beside concurrent readers and other touches, not beside writers.
    void touch(Slot slot, uint8_t tick) const;
    void set_use(Slot slot, uint8_t hits, uint8_t tick);

    // The parent's key, or zero.
    BlockKey parent_key(Slot slot) const;

    size_t live_count() const { return live_; }
    size_t entry_count() const { return used_; }     // with ghosts
    Slot slot_limit() const { return next_fresh_; }  // every slot is below
    size_t memory_bytes() const;
    // Makes room for `entries` without a rehash on the way.
    void reserve(size_t entries);

    // Calls f(slot) for every live entry, in slot order.
    template <typename F>
    void for_each_live(F&& f) const {
        for (Slot slot = 0; slot < next_fresh_; slot++) {
            if (at(slot).live()) f(slot);
        }
    }

 private:
    static constexpr size_t kChunk = 4096;

    SlotEntry& mut(Slot slot) { return chunks_[slot / kChunk][slot % kChunk]; }
    size_t home(const BlockKey& key) const;
    // Index into table_ of the key's cell, or of the empty cell where it would go.
    size_t cell_of(const BlockKey& key) const;
    Slot find_or_add(const BlockKey& key);
    void link_parent(Slot slot, const BlockKey& parent_key);
    void unlink_parent(Slot slot);
    void free_if_unneeded(Slot slot);
    void erase_cell(const BlockKey& key);
    void rehash(size_t cells);

    std::vector<std::unique_ptr<SlotEntry[]>> chunks_;
    std::vector<Slot> table_;  // size: a power of two
    Slot free_ = kNoSlot;      // list through next_sibling
    Slot next_fresh_ = 0;
    size_t used_ = 0;
    size_t live_ = 0;
};

}  // namespace quire
