#include "tier/arena/slot_arena.h"

#include <string>

namespace quire {

Result<std::unique_ptr<SlotArena>> SlotArena::create(const KvLayout& layout, uint64_t budget_bytes,
                                                     uint32_t min_slots, bool prefault) {
    QUIRE_TRY(layout.validate());
    uint64_t per_slot = 0;
    for (size_t g = 0; g < layout.groups.size(); ++g) per_slot += layout.slab_bytes(g);
    const uint64_t slots = budget_bytes / per_slot;
    if (slots < min_slots)
        return make_error(Code::full, "a KV budget of " + std::to_string(budget_bytes) +
                                          " bytes holds " + std::to_string(slots) +
                                          " blocks; this model needs at least " +
                                          std::to_string(min_slots * per_slot) + " bytes");
    if (slots >= kNoArenaSlot) return make_error(Code::invalid, "a KV budget over 2^32 blocks");

    std::unique_ptr<SlotArena> made(new SlotArena());
    auto arena =
        Arena::create({.bytes = slots * per_slot, .what = "KV blocks", .prefault = prefault});
    if (!arena.ok()) return arena.error();
    made->arena_ = std::move(arena).value();
    made->slots_ = static_cast<uint32_t>(slots);
    std::byte* next = made->arena_.data();
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        made->bases_.push_back(next);
        made->slab_bytes_.push_back(layout.slab_bytes(g));
        next += slots * layout.slab_bytes(g);
        auto& free = made->free_.emplace_back(slots);
        for (uint32_t i = 0; i < slots; ++i) free[i] = static_cast<uint32_t>(slots) - 1 - i;
    }
    return made;
}

uint64_t SlotArena::capacity_bytes() const {
    uint64_t bytes = 0;
    for (size_t slab : slab_bytes_) bytes += uint64_t{slots_} * slab;
    return bytes;
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
