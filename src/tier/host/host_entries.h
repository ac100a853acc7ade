// HostEntries: which block lies where in the host pool's memory, and which gives way to another.
//
// Memory is pools of equal units. Slabs as they are used have a pool for each group, whose unit is
// the group's slab. Packed slabs are of any size: all lie in one pool, in as many units of 4 KiB as
// they need, which need not be neighbours, so that no memory is lost between them. Eviction gives
// up children before parents. Not thread-safe; bytes of units that an entry holds, or that were
// given up and not given back, may be used by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/hash128.h"
#include "format/slab.h"
#include "policy/evict.h"
#include "tier/arena/slot_arena.h"
#include "tier/tier.h"

namespace quire {

struct HostEntry {
    BlockKey key;
    BlockKey parent;
    uint32_t pool = 0;
    std::vector<uint32_t> units;
    size_t bytes = 0;    // of the slab
    uint32_t users = 0;  // copies out of or into its units
    bool ready = false;  // its bytes are complete, and it is in its pool's policy
    bool doomed = false;
};

class HostEntries {
 public:
    // What was evicted for another block: its bytes are still there.
    struct GivenUp {
        std::vector<uint32_t> units;
        size_t bytes = 0;
    };
    struct Reserved {
        HostEntry* entry = nullptr;  // with one user; null: nothing more may go
        uint32_t pool = 0;
        std::vector<GivenUp> given_up;  // units of which are the entry's, or spare
        std::vector<uint32_t> spare;    // to be given back once what was given up was seen
    };

    HostEntries(std::unique_ptr<SlotArena> arena, bool any_size, const EvictionRow& evict);

    bool any_size() const { return any_size_; }
    // Whether a sound slab of that group and size has a place here at all.
    bool takes(uint32_t group, size_t bytes) const;
    HostEntry* find(const BlockKey& key);  // nullptr: not held; doomed ones are found
    const HostEntry* find(const BlockKey& key) const;

    // REQUIRES: the key is not held, takes(group, bytes).
    Reserved reserve(const SlabHeader& header, size_t bytes);
    void give_spare(const Reserved& reserved);
    void make_ready(HostEntry& entry, const EvictBlock& block);
    void touch(const HostEntry& entry) { policies_[entry.pool]->touch(entry.units.front()); }
    // Nobody finds it any more, and it goes when its last user does.
    void doom(HostEntry& entry);
    // Those of the keys that are held.
    void doom(std::span<const BlockKey> keys);
    // What a get finds.
    std::vector<TierEntry> list() const;
    void drop_user(HostEntry& entry);  // REQUIRES: it has one

    std::span<std::byte> unit(uint32_t pool, uint32_t number) const {
        return arena_->data(pool, number);
    }
    uint64_t blocks() const { return ready_; }
    uint64_t evicted_blocks() const { return evicted_; }
    uint64_t used_bytes() const;
    uint64_t capacity_bytes() const { return arena_->capacity_bytes(); }

 private:
    HostEntry* choose_victim(uint32_t pool);
    void forget(HostEntry& entry);

    const bool any_size_;
    const std::unique_ptr<SlotArena> arena_;
    std::unordered_map<BlockKey, HostEntry, Hash128Hasher> entries_;
    std::unordered_map<BlockKey, uint32_t, Hash128Hasher> children_;
    std::vector<std::vector<HostEntry*>> by_unit_;  // of ready entries, by their first unit
    std::vector<std::unique_ptr<EvictionPolicy>> policies_;
    uint64_t ready_ = 0, evicted_ = 0;
};

}  // namespace quire
