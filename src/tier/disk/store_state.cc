#include "tier/disk/store_state.h"

#include <mutex>

namespace quire {

void StoreState::forget(const BlockKey& key, const DiskPlace& place) {
    IndexRecord record;
    record.op = RecordOp::erase;
    record.key = key;
    record.segment = place.segment;
    record.offset_units = place.offset_units;
    record.units = place.units;
    {
        std::unique_lock lock(catalog.mutex());
        Slot slot = catalog.find(key);
        if (slot == kNoSlot || catalog.at(slot).place() != place) return;
        catalog.erase(slot);
    }
    if (journal_later) journal_later({record});
}

void StoreState::forget_segment(uint32_t id) {
    size_t dropped = 0;
    {
        std::unique_lock lock(catalog.mutex());
        dropped = catalog.drop_segment(id);
    }
    counters.evicted_blocks.fetch_add(dropped);
    (void)files.remove(id);
    IndexRecord record;
    record.op = RecordOp::drop_segment;
    record.segment = id;
    if (journal_later) journal_later({record});
}

}  // namespace quire
