#include "tier/disk/catalog.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

constexpr uint64_t kRoundsPerCapacity = 16;

constexpr uint8_t kHotRounds = kRoundsPerCapacity / 4;
constexpr size_t kCandidates = 16;  // of each kind
constexpr double kCopyCost = 0.1;   // of moving a unit, where a fresh unread unit is worth 1

}  // namespace

double Catalog::slab_score(Slot slot) const {
    const SlotEntry& entry = map_.at(slot);
    auto age = static_cast<uint8_t>(tick() - entry.tick_now());
    return static_cast<double>(entry.value) * (1.0 + entry.hits_now()) / (1.0 + age);
}

bool Catalog::hot(Slot slot) const {
    const SlotEntry& entry = map_.at(slot);
    auto age = static_cast<uint8_t>(tick() - entry.tick_now());
    return entry.hits_now() > 0 && age <= kHotRounds;
}

double Catalog::cleaning_cost(const SegmentState& segment) const {
    const auto total = static_cast<double>(std::max<uint64_t>(2, segment.file_bytes / kUnit));
    double lost = 0, moved = 0;
    for (Slot slot : segment.slots) {
        const SlotEntry& entry = map_.at(slot);
        if (!entry.live() || entry.segment != segment.id) continue;
        if (hot(slot) && moved + entry.units <= total / 4) {
            moved += entry.units;
        } else {
            lost += entry.units * slab_score(slot);
        }
    }
    return (lost + kCopyCost * moved) / (total - moved);
}

std::vector<const SegmentState*> Catalog::candidates() const {
    std::vector<const SegmentState*> sealed;
    for (const auto& [id, segment] : segments_) {
        if (segment.sealed) sealed.push_back(&segment);
    }
    // By id they are the oldest first; behind those, the emptiest.
    if (sealed.size() <= 2 * kCandidates) return sealed;
    auto middle = sealed.begin() + kCandidates;
    std::nth_element(middle, middle + kCandidates, sealed.end(),
                     [](const auto* a, const auto* b) { return a->live_units < b->live_units; });
    sealed.resize(2 * kCandidates);
    return sealed;
}

std::optional<uint32_t> Catalog::least_valuable() const {
    std::optional<uint32_t> best;
    double best_cost = 0;
    for (const SegmentState* segment : candidates()) {
        double cost = cleaning_cost(*segment);
        if (best && cost >= best_cost) continue;
        best = segment->id;
        best_cost = cost;
    }
    return best;
}

void Catalog::add_segment(uint32_t id, uint64_t file_bytes, bool sealed) {
    SegmentState& segment = segments_[id];
    segment.id = id;
    segment.file_bytes = file_bytes;
    segment.sealed = sealed;
}

void Catalog::seal_segment(uint32_t id, uint64_t file_bytes) {
    auto it = segments_.find(id);
    QUIRE_CHECK(it != segments_.end(), "seal of an unknown segment");
    it->second.sealed = true;
    it->second.file_bytes = file_bytes;
}

size_t Catalog::drop_segment(uint32_t id) {
    auto it = segments_.find(id);
    if (it == segments_.end()) return 0;
    size_t dropped = 0;
    std::vector<Slot> slots = std::move(it->second.slots);
    for (Slot slot : slots) {
        const SlotEntry& entry = map_.at(slot);
        if (!entry.live() || entry.segment != id) continue;  // moved, erased, or the slot reused
        erase(slot);
        dropped++;
    }
    segments_.erase(id);
    return dropped;
}

void Catalog::account(SegmentState& segment, const SlotEntry& entry, int sign) {
    if (sign > 0) {
        segment.live_units += entry.units;
        live_units_ += entry.units;
    } else {
        segment.live_units -= entry.units;
        live_units_ -= entry.units;
    }
}

Slot Catalog::publish(const BlockKey& key, const BlockKey& parent, const DiskPlace& place,
                      uint32_t value) {
    auto it = segments_.find(place.segment);
    QUIRE_CHECK(it != segments_.end(), "publish into an unknown segment");
    Slot slot = map_.find(key);
    uint8_t hits = 0;
    if (slot != kNoSlot) {
        hits = map_.at(slot).hits / 2;
        erase(slot);
    }
    slot = map_.insert(key, parent, place, value);
    map_.set_use(slot, hits, tick());
    // A new child means that somebody still walks through its parent.
    Slot above = map_.at(slot).parent;
    if (above != kNoSlot && map_.at(above).live()) {
        map_.set_use(above, map_.at(above).hits, tick());
    }
    SegmentState& segment = it->second;
    segment.slots.push_back(slot);
    segment.end_units = std::max(segment.end_units, place.offset_units + place.units);
    account(segment, map_.at(slot), +1);
    return slot;
}

void Catalog::move(Slot slot, const DiskPlace& place) {
    auto from = segments_.find(map_.at(slot).segment);
    auto to = segments_.find(place.segment);
    QUIRE_CHECK(from != segments_.end() && to != segments_.end(), "move between known segments");
    account(from->second, map_.at(slot), -1);
    map_.relocate(slot, place);
    map_.set_use(slot, map_.at(slot).hits / 2, map_.at(slot).tick);
    to->second.slots.push_back(slot);
    to->second.end_units = std::max(to->second.end_units, place.offset_units + place.units);
    account(to->second, map_.at(slot), +1);
}

void Catalog::erase(Slot slot) {
    const SlotEntry& entry = map_.at(slot);
    auto it = segments_.find(entry.segment);
    QUIRE_CHECK(it != segments_.end(), "a live slab lies in a known segment");
    account(it->second, entry, -1);
    map_.remove(slot);
}

void Catalog::advance(uint64_t bytes, uint64_t capacity_bytes) {
    uint64_t per_round = std::max<uint64_t>(1, capacity_bytes / kRoundsPerCapacity);
    round_bytes_ += bytes;
    round_ += static_cast<uint32_t>(round_bytes_ / per_round);
    round_bytes_ %= per_round;
}

void Catalog::clear() {
    map_ = SlotMap();
    segments_.clear();
    live_units_ = 0;
}

}  // namespace quire
