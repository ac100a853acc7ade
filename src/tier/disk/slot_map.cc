#include "tier/disk/slot_map.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kMinCells = 1024;

// Full at 13/16: a table just doubled is then at 13/32, ten bytes of table an entry at worst.
bool too_full(size_t used, size_t cells) {
    return used * 16 > cells * 13;
}

}  // namespace

SlotMap::SlotMap() : table_(kMinCells, kNoSlot) {}

size_t SlotMap::home(const BlockKey& key) const {
    // Keys are digests; the multiplication only guards against callers that count.
    uint64_t h = (key.value.lo ^ (key.value.hi >> 32)) * 0x9E3779B97F4A7C15ull;
    return static_cast<size_t>(h >> 32) & (table_.size() - 1);
}

size_t SlotMap::cell_of(const BlockKey& key) const {
    size_t mask = table_.size() - 1;
    size_t cell = home(key);
    while (table_[cell] != kNoSlot && at(table_[cell]).key != key) cell = (cell + 1) & mask;
    return cell;
}

Slot SlotMap::find(const BlockKey& key) const {
    Slot slot = table_[cell_of(key)];
    return slot != kNoSlot && at(slot).live() ? slot : kNoSlot;
}

Slot SlotMap::find_or_add(const BlockKey& key) {
    if (too_full(used_ + 1, table_.size())) rehash(table_.size() * 2);
    size_t cell = cell_of(key);
    if (table_[cell] != kNoSlot) return table_[cell];
    Slot slot = free_;
    if (slot != kNoSlot) {
        free_ = at(slot).next_sibling;
    } else {
        QUIRE_CHECK(next_fresh_ < kNoSlot - 1, "a disk index holds at most 2^32 - 2 slabs");
        slot = next_fresh_++;
        if (slot / kChunk >= chunks_.size()) {
            chunks_.push_back(std::make_unique<SlotEntry[]>(kChunk));
        }
    }
    mut(slot) = SlotEntry{};
    mut(slot).key = key;
    table_[cell] = slot;
    used_++;
    return slot;
}

Slot SlotMap::insert(const BlockKey& key, const BlockKey& parent_key, const DiskPlace& place,
                     uint32_t value) {
    QUIRE_CHECK(place.units > 0, "a slab takes at least one unit");
    Slot slot = find_or_add(key);
    QUIRE_CHECK(!at(slot).live(), "insert of a key that is live");
    SlotEntry& entry = mut(slot);
    entry.segment = place.segment;
    entry.offset_units = place.offset_units;
    entry.units = place.units;
    entry.value = static_cast<uint16_t>(std::min<uint32_t>(value, UINT16_MAX));
    entry.hits = 0;
    live_++;
    if (!parent_key.value.is_zero() && parent_key != key) link_parent(slot, parent_key);
    return slot;
}

void SlotMap::relocate(Slot slot, const DiskPlace& place) {
    SlotEntry& entry = mut(slot);
    QUIRE_CHECK(entry.live() && entry.units == place.units, "relocate of another slab");
    entry.segment = place.segment;
    entry.offset_units = place.offset_units;
}

void SlotMap::remove(Slot slot) {
    QUIRE_CHECK(at(slot).live(), "remove of a slab that is not held");
    mut(slot).units = 0;
    live_--;
    unlink_parent(slot);
    free_if_unneeded(slot);
}

void SlotMap::touch(Slot slot, uint8_t tick) const {
    auto& entry = const_cast<SlotEntry&>(at(slot));
    std::atomic_ref<uint8_t> hits(entry.hits);
    uint8_t now = hits.load(std::memory_order_relaxed);
    if (now < UINT8_MAX) hits.store(static_cast<uint8_t>(now + 1), std::memory_order_relaxed);
    std::atomic_ref<uint8_t>(entry.tick).store(tick, std::memory_order_relaxed);
}

void SlotMap::set_use(Slot slot, uint8_t hits, uint8_t tick) {
    mut(slot).hits = hits;
    mut(slot).tick = tick;
}

BlockKey SlotMap::parent_key(Slot slot) const {
    Slot parent = at(slot).parent;
    return parent == kNoSlot ? BlockKey{} : at(parent).key;
}

void SlotMap::link_parent(Slot slot, const BlockKey& parent_key) {
    Slot parent = find_or_add(parent_key);
    SlotEntry& child = mut(slot);
    child.parent = parent;
    child.prev_sibling = kNoSlot;
    child.next_sibling = at(parent).first_child;
    if (child.next_sibling != kNoSlot) mut(child.next_sibling).prev_sibling = slot;
    mut(parent).first_child = slot;
}

void SlotMap::unlink_parent(Slot slot) {
    SlotEntry& child = mut(slot);
    Slot parent = child.parent;
    if (parent == kNoSlot) return;
    if (child.prev_sibling != kNoSlot) {
        mut(child.prev_sibling).next_sibling = child.next_sibling;
    } else {
        mut(parent).first_child = child.next_sibling;
    }
    if (child.next_sibling != kNoSlot) mut(child.next_sibling).prev_sibling = child.prev_sibling;
    child.parent = child.next_sibling = child.prev_sibling = kNoSlot;
    free_if_unneeded(parent);
}

void SlotMap::free_if_unneeded(Slot slot) {
    SlotEntry& entry = mut(slot);
    // Ghosts have no parent, so this never recurses.
    if (entry.live() || entry.first_child != kNoSlot) return;
    erase_cell(entry.key);
    entry = SlotEntry{};
    entry.next_sibling = free_;
    free_ = slot;
    used_--;
}

// Backward-shift deletion: no tombstones, so that probes stay short for ever.
void SlotMap::erase_cell(const BlockKey& key) {
    size_t mask = table_.size() - 1;
    size_t hole = cell_of(key);
    size_t cell = hole;
    while (true) {
        cell = (cell + 1) & mask;
        if (table_[cell] == kNoSlot) break;
        size_t want = home(at(table_[cell]).key);
        // The entry may move into the hole if the hole lies on its probe path.
        if (((cell - want) & mask) >= ((cell - hole) & mask)) {
            table_[hole] = table_[cell];
            hole = cell;
        }
    }
    table_[hole] = kNoSlot;
}

void SlotMap::rehash(size_t cells) {
    std::vector<Slot> old(cells, kNoSlot);
    old.swap(table_);
    size_t mask = table_.size() - 1;
    for (Slot slot : old) {
        if (slot == kNoSlot) continue;
        size_t cell = home(at(slot).key);
        while (table_[cell] != kNoSlot) cell = (cell + 1) & mask;
        table_[cell] = slot;
    }
}

void SlotMap::reserve(size_t entries) {
    size_t cells = table_.size();
    while (too_full(entries + 1, cells)) cells *= 2;
    if (cells != table_.size()) rehash(cells);
}

size_t SlotMap::memory_bytes() const {
    return chunks_.size() * (kChunk * sizeof(SlotEntry) + sizeof(void*)) +
           table_.capacity() * sizeof(Slot);
}

}  // namespace quire
