#include "cache/g1_pool.h"

#include <array>

#include "base/check.h"

namespace quire {

G1Pool::G1Pool(const KvLayout& layout, SlotArena& arena, PrefixIndex& index,
               const EvictionRow& policy, OnEvict on_evict)
    : arena_(arena), index_(index), on_evict_(std::move(on_evict)) {
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        Group& made = groups_.emplace_back();
        made.slots.resize(arena.slots(g));
        made.policy = policy.make(arena.slots(g));
        made.chained = layout.groups[g].kind == KvKind::full;
    }
}

bool G1Pool::evictable(uint32_t group, uint32_t slot) const {
    const Meta& slot_meta = meta(group, slot);
    if (slot_meta.pins > 0) return false;
    return !groups_[group].chained ||
           index_.resident_children(slot_meta.block, group, Tier::g1) == 0;
}

// Blocks that are not owed go first. They are asked for alone only where there must be some: to
// some policies a refused candidate is one that has proven itself.
size_t G1Pool::choose_victims(uint32_t group, std::span<uint32_t> victims) {
    struct Context {
        const G1Pool* pool;
        uint32_t group;
        bool owed;
    } context{this, group, false};
    const Evictable ask{[](void* c, uint32_t id) {
                            const auto* self = static_cast<const Context*>(c);
                            return (self->owed || !self->pool->meta(self->group, id).owed) &&
                                   self->pool->evictable(self->group, id);
                        },
                        &context};
    const Group& from = groups_[group];
    size_t n = 0;
    if (from.owed > 0 && from.published > from.owed + from.pinned)
        n = from.policy->take_victims(victims, ask);
    context.owed = true;
    if (n < victims.size()) n += from.policy->take_victims(victims.subspan(n), ask);
    return n;
}

uint32_t G1Pool::evict(uint32_t group, std::span<uint32_t> victims) {
    const size_t n = choose_victims(group, victims);
    for (size_t i = 0; i < n; ++i) {
        Meta& victim = groups_[group].slots[victims[i]];
        QUIRE_CHECK(victim.pins == 0 && victim.block != kNoBlock, "policy offered a block in use");
        on_evict_(group, victim.block, victims[i]);
        set_owed(group, victims[i], false);
        index_.clear_location(victim.block, group, Tier::g1);
        victim.block = kNoBlock;
        --groups_[group].published;
        arena_.give(group, victims[i]);
    }
    return static_cast<uint32_t>(n);
}

uint32_t G1Pool::take(uint32_t group) {
    uint32_t slot = arena_.take(group);
    if (slot == kNoArenaSlot) {
        std::array<uint32_t, 1> victim{};
        if (evict(group, victim) == 0) return kNoArenaSlot;
        slot = arena_.take(group);
    }
    Meta& taken = groups_[group].slots[slot];
    QUIRE_CHECK(taken.pins == 0 && taken.block == kNoBlock, "a free slot was in use");
    taken.pins = 1;
    ++groups_[group].pinned;
    return slot;
}

void G1Pool::publish(uint32_t group, uint32_t slot, BlockIndex block, const EvictBlock& info) {
    Meta& filled = groups_[group].slots[slot];
    QUIRE_CHECK(filled.pins > 0 && filled.block == kNoBlock, "published twice or without a pin");
    filled.block = block;
    ++groups_[group].published;
    groups_[group].policy->insert(slot, info);
    index_.set_location(block, group, Tier::g1, slot);
}

void G1Pool::pin(uint32_t group, uint32_t slot) {
    if (groups_[group].slots[slot].pins++ == 0) ++groups_[group].pinned;
}

void G1Pool::unpin(uint32_t group, uint32_t slot) {
    Meta& held = groups_[group].slots[slot];
    QUIRE_CHECK(held.pins > 0, "unpin without a pin");
    if (--held.pins > 0) return;
    --groups_[group].pinned;
    if (held.block == kNoBlock) arena_.give(group, slot);
}

void G1Pool::touch(uint32_t group, uint32_t slot) {
    groups_[group].policy->touch(slot);
}

void G1Pool::set_owed(uint32_t group, uint32_t slot, bool owed) {
    Meta& held = groups_[group].slots[slot];
    if (owed != held.owed) owed ? ++groups_[group].owed : --groups_[group].owed;
    held.owed = owed;
}

uint64_t G1Pool::evict_all() {
    uint64_t total = 0;
    std::array<uint32_t, 64> victims{};
    for (uint32_t g = 0; g < groups_.size(); ++g)
        while (const uint32_t n = evict(g, victims)) total += n;
    return total;
}

uint32_t G1Pool::available(uint32_t group) const {
    return arena_.slots(group) - groups_[group].pinned;
}

G1Pool::Stats G1Pool::stats() const {
    Stats stats;
    stats.capacity_bytes = arena_.capacity_bytes();
    for (uint32_t g = 0; g < groups_.size(); ++g) {
        stats.published += groups_[g].published;
        stats.pinned += groups_[g].pinned;
        stats.used_bytes += uint64_t{arena_.slots(g) - arena_.free_slots(g)} * arena_.slab_bytes(g);
    }
    return stats;
}

}  // namespace quire
