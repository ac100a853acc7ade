// G1Pool: the G1 slots of every group, who holds them, and which to give up next.
//
// A slot is in exactly one state:
//   free       nobody's
//   filling    taken by a lease (computing into it) or by a load (reading into it); pins >= 1
//   published  holds a whole block of the index; immutable; pins = leases and stores that use it;
//              with pins == 0 it is the eviction policy's to offer
// Pins keep a slot from being reused; the last holder to let go decides nothing, it only unpins.
// Blocks of a full-attention group leave only after their children; window blocks are not chained
// that way. Not thread-safe: the cache's thread owns it. Slot bytes may be read by movers while
// pinned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/kv_layout.h"
#include "index/prefix_index.h"
#include "policy/evict.h"
#include "tier/arena/slot_arena.h"

namespace quire {

class G1Pool {
 public:
    // Called for each block given up, before its slot is free again.
    using OnEvict = std::function<void(uint32_t group, BlockIndex block, uint32_t slot)>;

    // `index` and `arena` outlive the pool.
    G1Pool(const KvLayout& layout, SlotArena& arena, PrefixIndex& index, const EvictionRow& policy,
           OnEvict on_evict);

    // A slot in state filling with one pin, evicting if need be; kNoArenaSlot if all are pinned.
    uint32_t take(uint32_t group);
    // filling → published as `block`; keeps the pins.
    void publish(uint32_t group, uint32_t slot, BlockIndex block, const EvictBlock& info);
    void pin(uint32_t group, uint32_t slot);
    // A filling slot whose last pin goes becomes free; a published one becomes evictable.
    void unpin(uint32_t group, uint32_t slot);
    void touch(uint32_t group, uint32_t slot);
    // An owed block is given up only when nothing else can be.
    void set_owed(uint32_t group, uint32_t slot, bool owed);

    // Gives up every published block without pins. Returns how many.
    uint64_t evict_all();

    bool published(uint32_t group, uint32_t slot) const {
        return meta(group, slot).block != kNoBlock;
    }
    BlockIndex block(uint32_t group, uint32_t slot) const { return meta(group, slot).block; }
    // Slots that take() could return now, counting what can be evicted (an upper bound).
    uint32_t available(uint32_t group) const;
    uint32_t slots(uint32_t group) const { return arena_.slots(group); }
    std::span<std::byte> data(uint32_t group, uint32_t slot) const {
        return arena_.data(group, slot);
    }

    struct Stats {
        uint64_t published = 0, pinned = 0, used_bytes = 0, capacity_bytes = 0;
    };
    Stats stats() const;

 private:
    struct Meta {
        BlockIndex block = kNoBlock;
        uint32_t pins = 0;
        bool owed = false;
    };
    struct Group {
        std::vector<Meta> slots;
        std::unique_ptr<EvictionPolicy> policy;
        bool chained = true;  // children leave first
        uint32_t pinned = 0;  // slots with pins > 0
        uint32_t published = 0;
        uint32_t owed = 0;
    };
    const Meta& meta(uint32_t group, uint32_t slot) const { return groups_[group].slots[slot]; }
    bool evictable(uint32_t group, uint32_t slot) const;
    uint32_t evict(uint32_t group, std::span<uint32_t> victims);
    size_t choose_victims(uint32_t group, std::span<uint32_t> victims);

    SlotArena& arena_;
    PrefixIndex& index_;
    OnEvict on_evict_;
    std::vector<Group> groups_;
};

}  // namespace quire
