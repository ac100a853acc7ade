#include "tier/disk/active_segment.h"

#include <mutex>

#include "format/segment.h"

namespace quire {

void ActiveSegment::start(StoreState& state, const SegmentFiles::FilePtr& file, uint64_t bytes) {
    file_ = file;
    end_units_ = kSegmentHeaderBytes / kDiskUnitBytes;
    capacity_units_ = static_cast<uint32_t>(bytes / kDiskUnitBytes);
    std::unique_lock lock(state.catalog.mutex());
    state.catalog.add_segment(file->id(), bytes, false);
}

std::optional<DiskPlace> ActiveSegment::place(uint16_t units) {
    if (free_units() < units) return std::nullopt;
    DiskPlace place{id(), end_units_, units};
    end_units_ += units;
    return place;
}

}  // namespace quire
