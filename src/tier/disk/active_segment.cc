#include "tier/disk/active_segment.h"

#include <memory>
#include <mutex>

#include "format/segment.h"

namespace quire {

Status ActiveSegment::start(StoreState& state, const SegmentFiles::FilePtr& file, uint64_t bytes) {
    close();
    const uint32_t id = file->id();
    struct alignas(kDiskUnitBytes) Aligned {
        SegmentHeader header;
    };
    auto page = std::make_unique<Aligned>();
    page->header = make_segment_header(id, bytes, state.clock.wall_ns());
    IoRequest request = io_write(file->fd(), 0, std::as_bytes(std::span(&page->header, 1)));
    auto written = run_io(state.io, std::span(&request, 1));
    if (!written[0].ok()) {
        (void)state.files.remove(id);
        return written[0].error();
    }
    file_ = file;
    end_units_ = kSegmentHeaderBytes / kDiskUnitBytes;
    capacity_units_ = static_cast<uint32_t>(bytes / kDiskUnitBytes);
    std::unique_lock lock(state.catalog.mutex());
    state.catalog.add_segment(id, bytes, false);
    return {};
}

std::optional<DiskPlace> ActiveSegment::place(uint16_t units) {
    if (free_units() < units) return std::nullopt;
    DiskPlace place{id(), end_units_, units};
    end_units_ += units;
    return place;
}

}  // namespace quire
