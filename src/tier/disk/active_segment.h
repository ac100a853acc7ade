// ActiveSegment: the segment that is being filled. Hands out places front to back; owned by the
// writer.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "tier/disk/segment_files.h"
#include "tier/disk/slot_map.h"
#include "tier/disk/store_state.h"

namespace quire {

class ActiveSegment {
 public:
    // Goes on in a file just created, of `bytes`, and makes it known to the catalog. The header is
    // the caller's to write: readers do without it.
    void start(StoreState& state, const SegmentFiles::FilePtr& file, uint64_t bytes);
    void close() { file_.reset(); }

    bool open() const { return file_ != nullptr; }
    uint32_t id() const { return file_->id(); }
    const SegmentFiles::FilePtr& file() const { return file_; }
    uint32_t end_units() const { return end_units_; }
    uint32_t free_units() const { return open() ? capacity_units_ - end_units_ : 0; }
    // The next `units`, or nothing when they do not fit.
    std::optional<DiskPlace> place(uint16_t units);

 private:
    SegmentFiles::FilePtr file_;
    uint32_t end_units_ = 0;
    uint32_t capacity_units_ = 0;
};

}  // namespace quire
