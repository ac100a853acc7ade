// Invariants: children_ counts, per parent key, the entries that name it (a child may arrive before
// its parent); an entry with children is not evicted, so parents outlive children. A policy knows
// an entry by its first unit, from make_ready() until it is evicted or doomed.
#include "tier/host/host_entries.h"

#include <utility>

namespace quire {

HostEntries::HostEntries(std::unique_ptr<SlotArena> arena, bool any_size, const EvictionRow& evict)
    : any_size_(any_size), arena_(std::move(arena)) {
    // How many blocks of any size there will be is not known: far fewer than units.
    if (!any_size) entries_.reserve(size_t{arena_->slots_max()} * arena_->groups());
    for (size_t pool = 0; pool < arena_->groups(); ++pool) {
        policies_.push_back(evict.make(arena_->slots(pool)));
        by_unit_.emplace_back(arena_->slots(pool), nullptr);
    }
}

bool HostEntries::takes(uint32_t group, size_t bytes) const {
    if (any_size_) return bytes % arena_->slab_bytes(0) == 0 && bytes <= capacity_bytes();
    return group < arena_->groups() && bytes == arena_->slab_bytes(group);
}

HostEntry* HostEntries::find(const BlockKey& key) {
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : &it->second;
}

const HostEntry* HostEntries::find(const BlockKey& key) const {
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : &it->second;
}

HostEntries::Reserved HostEntries::reserve(const SlabHeader& header, size_t bytes) {
    Reserved reserved;
    reserved.pool = any_size_ ? 0 : header.group;
    const size_t needed = bytes / arena_->slab_bytes(reserved.pool);
    std::vector<uint32_t>& units = reserved.spare;
    while (units.size() < needed) {
        if (const uint32_t free = arena_->take(reserved.pool); free != kNoArenaSlot) {
            units.push_back(free);
            continue;
        }
        HostEntry* victim = choose_victim(reserved.pool);
        if (!victim) return reserved;
        units.insert(units.end(), victim->units.begin(), victim->units.end());
        reserved.given_up.push_back({std::move(victim->units), victim->bytes});
        forget(*victim);
    }
    HostEntry& entry = entries_[header.key];
    entry = {.key = header.key,
             .parent = header.parent_key,
             .pool = reserved.pool,
             .bytes = bytes,
             .users = 1};
    const auto last = units.begin() + static_cast<ptrdiff_t>(needed);
    entry.units.assign(units.begin(), last);
    units.erase(units.begin(), last);
    ++children_[header.parent_key];
    reserved.entry = &entry;
    return reserved;
}

void HostEntries::give_spare(const Reserved& reserved) {
    for (const uint32_t unit : reserved.spare) arena_->give(reserved.pool, unit);
}

void HostEntries::make_ready(HostEntry& entry, const EvictBlock& block) {
    entry.ready = true;
    ++ready_;
    by_unit_[entry.pool][entry.units.front()] = &entry;
    policies_[entry.pool]->insert(entry.units.front(), block);
}

void HostEntries::doom(HostEntry& entry) {
    if (entry.doomed) return;
    if (entry.ready) policies_[entry.pool]->erase(entry.units.front());
    entry.doomed = true;
    if (entry.users == 0) forget(entry);
}

void HostEntries::doom(std::span<const BlockKey> keys) {
    for (const BlockKey& key : keys)
        if (HostEntry* entry = find(key)) doom(*entry);
}

std::vector<TierEntry> HostEntries::list() const {
    std::vector<TierEntry> all;
    for (const auto& [key, entry] : entries_)
        if (entry.ready && !entry.doomed)
            all.push_back({key, entry.parent, static_cast<uint32_t>(entry.bytes)});
    return all;
}

void HostEntries::drop_user(HostEntry& entry) {
    if (--entry.users == 0 && entry.doomed) forget(entry);
}

uint64_t HostEntries::used_bytes() const {
    uint64_t bytes = 0;
    for (size_t pool = 0; pool < arena_->groups(); ++pool)
        bytes +=
            uint64_t{arena_->slots(pool) - arena_->free_slots(pool)} * arena_->slab_bytes(pool);
    return bytes;
}

// nullptr if nothing may go.
HostEntry* HostEntries::choose_victim(uint32_t pool) {
    struct Context {
        const HostEntries* self;
        uint32_t pool;
    } context{this, pool};
    const Evictable ask{[](void* c, uint32_t unit) {
                            const auto* asked = static_cast<const Context*>(c);
                            const HostEntry* e = asked->self->by_unit_[asked->pool][unit];
                            return e->users == 0 && !asked->self->children_.contains(e->key);
                        },
                        &context};
    uint32_t victim = 0;
    if (policies_[pool]->take_victims({&victim, 1}, ask) == 0) return nullptr;
    ++evicted_;
    return std::exchange(by_unit_[pool][victim], nullptr);
}

// Removes an entry that is in no policy and that nobody uses; units it still has are free.
void HostEntries::forget(HostEntry& entry) {
    if (const auto it = children_.find(entry.parent); --it->second == 0) children_.erase(it);
    ready_ -= entry.ready;
    for (const uint32_t unit : entry.units) arena_->give(entry.pool, unit);
    const BlockKey key = entry.key;
    entries_.erase(key);
}

}  // namespace quire
