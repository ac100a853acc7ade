// SlotArena: one region of memory cut into slab-sized slots, an equal number for every group that
// keeps the same blocks.
//
// G1 (what attention reads) and G2 (the host pool) are each one of these. A slot is addressed by
// (group, number) and never moves, so attention and O_DIRECT I/O use it in place. Equal counts per
// group mean that a token's KV always finds its place in all groups or in none. In a layout with
// codes, groups that keep only sinks get fewer: some for open blocks, which G1 fills, and sinks for
// every sixteenth block of the other groups. This class only
// does arithmetic and a free list; who may use a slot is its owner's business. Not thread-safe but
// for data(), which any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "core/kv_layout.h"

namespace quire {

inline constexpr uint32_t kNoArenaSlot = ~uint32_t{0};

// Slots for blocks being filled, in groups that keep only sinks: `least` at any price, up to `most`
// while they take no more than a quarter of the budget.
struct OpenSlots {
    uint32_t least = 0;
    uint32_t most = 0;
};

class SlotArena {
 public:
    // full when fewer than `min_slots` slots of each group but those of sinks fit the budget (the
    // message says how many bytes would do); io when the machine refuses the memory.
    static Result<std::unique_ptr<SlotArena>> create(const KvLayout& layout, uint64_t budget_bytes,
                                                     uint32_t min_slots, bool prefault = false,
                                                     const OpenSlots& open = {});

    // The same over memory that is somebody else's, outlives this and begins at a multiple of
    // kSlabAlign: a device's, or pinned memory. Only its addresses are used here.
    static Result<std::unique_ptr<SlotArena>> over(const KvLayout& layout,
                                                   std::span<std::byte> memory, uint32_t min_slots);

    // One group of slots of `unit_bytes`, a divisor of each of the layout's slabs, for slabs of any
    // size. full when not even one slab of each group fits the budget.
    static Result<std::unique_ptr<SlotArena>> of_units(const KvLayout& layout,
                                                       uint64_t budget_bytes, size_t unit_bytes);

    uint32_t slots(size_t group) const { return slots_[group]; }
    // Of the group that has most.
    uint32_t slots_max() const;
    size_t groups() const { return bases_.size(); }
    size_t slab_bytes(size_t group) const { return slab_bytes_[group]; }
    uint64_t capacity_bytes() const;

    std::span<std::byte> data(size_t group, uint32_t slot) const {
        return {bases_[group] + size_t{slot} * slab_bytes_[group], slab_bytes_[group]};
    }

    // kNoArenaSlot when the group has none left.
    uint32_t take(size_t group);
    void give(size_t group, uint32_t slot);
    uint32_t free_slots(size_t group) const { return static_cast<uint32_t>(free_[group].size()); }

 private:
    SlotArena() = default;
    Status allocate(uint64_t bytes, bool prefault);
    void add_groups(const KvLayout& layout, uint64_t slots, uint64_t sinks);
    // The next `count` slots of the memory.
    void add_group(size_t slab_bytes, uint32_t count);

    Arena arena_;                  // empty: the memory is somebody else's
    std::byte* memory_ = nullptr;  // where the first slot is
    std::vector<uint32_t> slots_;  // per group
    std::vector<std::byte*> bases_;
    std::vector<size_t> slab_bytes_;
    std::vector<std::vector<uint32_t>> free_;  // per group, last in first out: warm slots first
};

}  // namespace quire
