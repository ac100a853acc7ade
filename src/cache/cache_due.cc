// Blocks that lower tiers ought to get, until their stores begin.
//
// They wait in order of publication and hold no pins, so that however many there are, G1 can give
// them up. poll() begins as many stores as the bound of pinned bytes allows, and goes on whenever
// some have completed. G1 gives owed blocks up last, and what it must give up goes down as a copy
// (cache_demote.cc); without a free buffer it is lost below and counted as busy. So a slow tier
// makes stores late, and in the end fewer, but no token waits for one.
#include <algorithm>
#include <utility>

#include "cache/cache.h"
#include "format/slab.h"

namespace quire {

void Cache::owe(uint32_t group, uint32_t slot, uint8_t tiers) {
    if (tiers == 0) return;
    SlotState& state = slot_states_[group][slot];
    if (state.due == 0) {
        due_.push_newest(0, group * due_stride_ + slot);
        due_bytes_ += options_.layout.slab_bytes(group);
        pool_->set_owed(group, slot, true);
    }
    state.due |= tiers;
}

// The block is owed no longer. Returns the tiers it was owed to.
uint8_t Cache::take_due(uint32_t group, uint32_t slot) {
    SlotState& state = slot_states_[group][slot];
    if (state.due == 0) return 0;
    due_.remove(0, group * due_stride_ + slot);
    due_bytes_ -= options_.layout.slab_bytes(group);
    pool_->set_owed(group, slot, false);
    return std::exchange(state.due, 0);
}

uint64_t Cache::store_bytes_max() const {
    return std::min(options_.pending_store_bytes_max, arena_->capacity_bytes() / 4);
}

// Begins stores of the copies that were put off, and of owed blocks until `held_bytes_max` are
// pinned; of one at least.
void Cache::begin_stores(uint64_t held_bytes_max) {
    begin_copies();
    std::vector<StoreItem> items;
    while (due_.size(0) > 0) {
        const uint32_t id = due_.oldest(0);
        const uint64_t bytes = options_.layout.slab_bytes(id / due_stride_);
        if (held_store_bytes_ > 0 && held_store_bytes_ + bytes > held_bytes_max) break;
        items.push_back(hold_for_store(id / due_stride_, id % due_stride_));
    }
    submit_stores(std::move(items));
}

StoreItem Cache::hold_for_store(uint32_t group, uint32_t slot) {
    SlotState& state = slot_states_[group][slot];
    StoreItem item;
    item.group = group;
    item.slot = slot;
    item.slab = pool_->data(group, slot);
    item.sealed = state.sealed;
    item.tiers = take_due(group, slot);
    const SlabHeader& header = slab_header(std::span<const std::byte>(item.slab));
    item.key = header.key;
    item.prefix = header.prefix;
    state.storing = true;
    pool_->pin(group, slot);
    held_store_bytes_ += item.slab.size();
    stats_.pending_store_bytes += item.slab.size();
    ++stats_.pending_stores;
    return item;
}

void Cache::count_busy(uint8_t tiers) {
    for (size_t i = 0; i < tiers_.size(); ++i)
        if (tiers >> i & 1) ++stats_.store_busy[static_cast<int>(tiers_[i].tier)];
}

}  // namespace quire
