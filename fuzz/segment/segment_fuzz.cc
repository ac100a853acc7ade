// A segment file of any bytes: the scan ends, stays inside the file, and visits only sound headers.
//
// The first byte says how the rest is used: bit 0 seals the first slab's header after mutation, so
// that the code behind the checksum is reached too; bit 1 lets reads fail beyond half of the file.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "format/segment.h"
#include "format/slab.h"

namespace {

using quire::kSlabHeaderBytes;

// Files are looked at in aligned memory, as the store reads them.
struct alignas(4096) Page {
    std::byte bytes[4096];
};

std::span<std::byte> bytes_of(std::vector<Page>& pages, size_t size) {
    return std::span(pages.data()->bytes, size);
}

void seal_header(std::span<std::byte> slab) {
    quire::SlabHeader& header = quire::slab_header(slab);
    header.magic = quire::kSlabMagic;
    header.version = quire::kSlabVersion;
    header.header_crc = 0;
    header.header_crc = quire::crc32c(slab.first(kSlabHeaderBytes));
}

void check_slab(std::span<const std::byte> file, uint64_t offset) {
    const auto slab = file.subspan(offset);
    const auto head = slab.first(kSlabHeaderBytes);
    QUIRE_CHECK(quire::verify_slab_header(head).ok(), "scan visited an unsound header");
    const uint64_t bytes = quire::slab_disk_bytes(quire::slab_header(head));
    if (bytes > slab.size()) return;
    const quire::Status whole = quire::verify_slab(slab.first(bytes));
    QUIRE_CHECK(whole.ok() || !whole.error().message.empty(), "a failure without a message");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    const uint8_t mode = data[0];
    const size_t file_bytes = size - 1;
    std::vector<Page> pages(file_bytes / sizeof(Page) + 2);
    const auto file = bytes_of(pages, file_bytes);
    std::memcpy(file.data(), data + 1, file_bytes);
    const size_t first = quire::kSegmentHeaderBytes;
    if ((mode & 1) != 0 && file_bytes >= first + kSlabHeaderBytes) seal_header(file.subspan(first));

    auto read = [&](uint64_t offset, std::span<std::byte> into) -> quire::Status {
        QUIRE_CHECK(offset <= file_bytes && into.size() <= file_bytes - offset,
                    "a read beyond the end of the file");
        if ((mode & 2) != 0 && offset > file_bytes / 2) {
            return quire::make_error(quire::Code::io, "injected");
        }
        std::memcpy(into.data(), file.data() + offset, into.size());
        return {};
    };
    uint64_t next = 0;
    uint64_t slabs = 0;
    auto visit = [&](uint64_t offset, const quire::SlabHeader&) {
        QUIRE_CHECK(offset >= next && offset % quire::kSlabAlign == 0, "slabs out of order");
        next = offset + kSlabHeaderBytes;
        ++slabs;
        check_slab(file, offset);
    };
    const quire::SegmentScan scan = quire::scan_segment(file_bytes, read, visit);
    QUIRE_CHECK(scan.slabs == slabs, "the scan counts what it did not show");
    if (file_bytes >= quire::kSegmentHeaderBytes) {
        (void)quire::parse_segment_header(file.first(quire::kSegmentHeaderBytes)).ok();
    }
    return 0;
}
