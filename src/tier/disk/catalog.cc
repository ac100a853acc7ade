#include "tier/disk/catalog.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

constexpr uint64_t kRoundsPerCapacity = 16;

uint32_t decayed(uint32_t heat, uint32_t rounds) {
    return rounds >= 32 ? 0 : heat >> rounds;
}

}  // namespace

void Catalog::touch(uint32_t segment, const std::vector<Slot>& slots) const {
    for (Slot slot : slots) map_.touch(slot, tick());
    auto it = segments_.find(segment);
    if (it == segments_.end()) return;
    const SegmentState& state = it->second;
    // Two readers may race here and lose a count: heat is a hint.
    uint32_t age = round_ - state.use_round.load(std::memory_order_relaxed);
    uint32_t heat = decayed(state.heat.load(std::memory_order_relaxed), age);
    state.heat.store(heat + static_cast<uint32_t>(slots.size()), std::memory_order_relaxed);
    state.use_round.store(round_, std::memory_order_relaxed);
}

double Catalog::slab_score(Slot slot) const {
    const SlotEntry& entry = map_.at(slot);
    auto age = static_cast<uint8_t>(tick() - entry.tick_now());
    return static_cast<double>(entry.value) * (1.0 + entry.hits_now()) / (1.0 + age);
}

double Catalog::segment_score(const SegmentState& segment) const {
    uint32_t age = round_ - segment.use_round.load(std::memory_order_relaxed);
    uint32_t heat = decayed(segment.heat.load(std::memory_order_relaxed), age);
    double live_slabs = 1.0 + static_cast<double>(segment.slots.size());
    double total_units = static_cast<double>(std::max<uint64_t>(1, segment.file_bytes / kUnit));
    return static_cast<double>(segment.worth) * (1.0 + heat / live_slabs) /
           ((1.0 + age) * total_units);
}

std::optional<uint32_t> Catalog::least_valuable() const {
    std::optional<uint32_t> best;
    double best_score = 0;
    for (const auto& [id, segment] : segments_) {
        if (!segment.sealed) continue;
        double score = segment_score(segment);
        if (!best || score < best_score) {
            best = id;
            best_score = score;
        }
    }
    return best;
}

void Catalog::add_segment(uint32_t id, uint64_t file_bytes, bool sealed) {
    SegmentState& segment = segments_[id];
    segment.id = id;
    segment.file_bytes = file_bytes;
    segment.sealed = sealed;
    segment.use_round.store(round_, std::memory_order_relaxed);
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
    uint64_t worth = static_cast<uint64_t>(entry.units) * entry.value;
    if (sign > 0) {
        segment.live_units += entry.units;
        segment.worth += worth;
        live_units_ += entry.units;
    } else {
        segment.live_units -= entry.units;
        segment.worth -= worth;
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
