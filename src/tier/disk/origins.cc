#include "tier/disk/origins.h"

#include <algorithm>

#include <fcntl.h>

#include "format/record.h"
#include "format/segment.h"

namespace quire {
namespace {

constexpr size_t kSegmentsAsked = 64;  // two reads of 4 KiB each
constexpr size_t kOriginsMax = 8;

void ask(int fd, const SlotEntry& entry, std::vector<SlabOrigin>& found) {
    alignas(SlabHeader) std::byte bytes[kSlabHeaderBytes];
    if (!read_exact(fd, uint64_t{entry.offset_units} * kDiskUnitBytes, bytes).ok()) return;
    if (!verify_slab_header(bytes).ok()) return;
    const SlabHeader& header = slab_header(std::span<const std::byte>(bytes));
    const SlabOrigin origin{header.model, header.layout_digest, header.codec, header.token_count};
    if (found.size() < kOriginsMax && std::find(found.begin(), found.end(), origin) == found.end())
        found.push_back(origin);
}

}  // namespace

std::vector<SlabOrigin> sample_origins(const DiskDir& dir, const Catalog& catalog) {
    std::vector<const SegmentState*> segments;
    for (const auto& [id, segment] : catalog.segments())
        if (segment.live_units > 0) segments.push_back(&segment);
    std::vector<SlabOrigin> found;
    const size_t asked = std::min(segments.size(), kSegmentsAsked);
    for (size_t i = 0; i < asked; ++i) {
        // The oldest and the newest are always among them.
        const size_t at = asked == 1 ? 0 : i * (segments.size() - 1) / (asked - 1);
        const SegmentState& segment = *segments[at];
        const auto lies_here = [&](Slot slot) {
            return catalog.at(slot).live() && catalog.at(slot).segment == segment.id;
        };
        const auto first = std::find_if(segment.slots.begin(), segment.slots.end(), lies_here);
        const auto last = std::find_if(segment.slots.rbegin(), segment.slots.rend(), lies_here);
        if (first == segment.slots.end()) continue;
        auto fd = dir.open_file(segment_file_name(segment.id), O_RDONLY);
        if (!fd.ok()) continue;
        ask(fd->get(), catalog.at(*first), found);
        if (*last != *first) ask(fd->get(), catalog.at(*last), found);
    }
    return found;
}

}  // namespace quire
