#include "tier/arena/slot_arena.h"

#include <algorithm>
#include <string>

namespace quire {
namespace {

// One sink for so many other blocks: prompts are longer than a thousand tokens, or begin alike.
constexpr uint32_t kBlocksPerSink = 16;

struct Shares {
    uint64_t slot_bytes = 0;  // of one slot in each group that does not keep only sinks
    uint64_t sink_bytes = 0;  // the same for those that do
    uint32_t sink_blocks = 0;
    uint64_t open = 0;

    uint64_t sinks(uint64_t slots) const {
        if (sink_bytes == 0) return 0;
        return open + std::max<uint64_t>(1, sink_blocks * (slots / kBlocksPerSink + 1));
    }
    uint64_t bytes(uint64_t slots) const { return slots * slot_bytes + sinks(slots) * sink_bytes; }
};

Shares shares_of(const KvLayout& layout, uint64_t budget_bytes, const OpenSlots& open) {
    Shares shares;
    shares.sink_blocks = layout.sink_blocks();
    for (size_t g = 0; g < layout.groups.size(); ++g)
        (layout.groups[g].keep == KvKeep::sinks ? shares.sink_bytes : shares.slot_bytes) +=
            layout.slab_bytes(g);
    if (shares.sink_bytes > 0)
        shares.open = std::clamp<uint64_t>(budget_bytes / 4 / shares.sink_bytes, open.least,
                                           std::max(open.least, open.most));
    return shares;
}

// The most slots that fit.
uint64_t slots_in(const Shares& shares, uint64_t budget_bytes) {
    uint64_t low = 0, high = budget_bytes / shares.slot_bytes;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (shares.bytes(middle) <= budget_bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

Error too_small(uint64_t budget_bytes, uint64_t slots, uint64_t least_bytes) {
    return make_error(Code::full, "a KV budget of " + std::to_string(budget_bytes) +
                                      " bytes holds " + std::to_string(slots) +
                                      " blocks; this model needs at least " +
                                      std::to_string(least_bytes) + " bytes");
}

Error too_many() {
    return make_error(Code::invalid, "a KV budget over 2^32 blocks");
}

Result<uint64_t> slots_of(const Shares& shares, uint64_t budget_bytes, uint32_t min_slots) {
    const uint64_t slots = slots_in(shares, budget_bytes);
    if (slots < min_slots) return too_small(budget_bytes, slots, shares.bytes(min_slots));
    if (slots >= kNoArenaSlot) return too_many();
    return slots;
}

}  // namespace

Result<std::unique_ptr<SlotArena>> SlotArena::create(const KvLayout& layout, uint64_t budget_bytes,
                                                     uint32_t min_slots, bool prefault,
                                                     const OpenSlots& open) {
    QUIRE_TRY(layout.validate());
    const Shares shares = shares_of(layout, budget_bytes, open);
    const auto slots = slots_of(shares, budget_bytes, min_slots);
    QUIRE_TRY(slots);
    std::unique_ptr<SlotArena> made(new SlotArena());
    QUIRE_TRY(made->allocate(shares.bytes(*slots), prefault));
    made->add_groups(layout, *slots, shares.sinks(*slots));
    return made;
}

Result<std::unique_ptr<SlotArena>> SlotArena::over(const KvLayout& layout,
                                                   std::span<std::byte> memory,
                                                   uint32_t min_slots) {
    QUIRE_TRY(layout.validate());
    const Shares shares = shares_of(layout, memory.size(), {});
    const auto slots = slots_of(shares, memory.size(), min_slots);
    QUIRE_TRY(slots);
    std::unique_ptr<SlotArena> made(new SlotArena());
    made->memory_ = memory.data();
    made->add_groups(layout, *slots, shares.sinks(*slots));
    return made;
}

Result<std::unique_ptr<SlotArena>> SlotArena::of_units(const KvLayout& layout,
                                                       uint64_t budget_bytes, size_t unit_bytes) {
    QUIRE_TRY(layout.validate());
    uint64_t least = 0;
    for (size_t g = 0; g < layout.groups.size(); ++g) least += layout.slab_bytes(g);
    if (budget_bytes < least) return too_small(budget_bytes, 0, least);
    const uint64_t units = budget_bytes / unit_bytes;
    if (units >= kNoArenaSlot) return too_many();
    std::unique_ptr<SlotArena> made(new SlotArena());
    QUIRE_TRY(made->allocate(units * unit_bytes, false));
    made->add_group(unit_bytes, static_cast<uint32_t>(units));
    return made;
}

Status SlotArena::allocate(uint64_t bytes, bool prefault) {
    auto arena = Arena::create({.bytes = bytes, .what = "KV blocks", .prefault = prefault});
    if (!arena.ok()) return arena.error();
    arena_ = std::move(arena).value();
    memory_ = arena_.data();
    return {};
}

void SlotArena::add_groups(const KvLayout& layout, uint64_t slots, uint64_t sinks) {
    for (size_t g = 0; g < layout.groups.size(); ++g)
        add_group(layout.slab_bytes(g),
                  static_cast<uint32_t>(layout.groups[g].keep == KvKeep::sinks ? sinks : slots));
}

void SlotArena::add_group(size_t slab_bytes, uint32_t count) {
    bases_.push_back(bases_.empty() ? memory_ : bases_.back() + slots_.back() * slab_bytes_.back());
    slots_.push_back(count);
    slab_bytes_.push_back(slab_bytes);
    auto& free = free_.emplace_back(count);
    for (uint32_t i = 0; i < count; ++i) free[i] = count - 1 - i;
}

uint64_t SlotArena::capacity_bytes() const {
    uint64_t bytes = 0;
    for (size_t g = 0; g < slots_.size(); ++g) bytes += uint64_t{slots_[g]} * slab_bytes_[g];
    return bytes;
}

uint32_t SlotArena::slots_max() const {
    return std::ranges::max(slots_);
}

uint32_t SlotArena::take(size_t group) {
    auto& free = free_[group];
    if (free.empty()) return kNoArenaSlot;
    const uint32_t slot = free.back();
    free.pop_back();
    return slot;
}

void SlotArena::give(size_t group, uint32_t slot) {
    free_[group].push_back(slot);
}

}  // namespace quire
