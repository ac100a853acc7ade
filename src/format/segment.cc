#include "format/segment.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/hash.h"

namespace quire {
namespace {

constexpr std::string_view kPrefix = "segment-";
constexpr std::string_view kSuffix = ".quire";

uint32_t header_crc(SegmentHeader header) {
    header.crc = 0;
    return crc32c(std::as_bytes(std::span(&header, 1)));
}

bool all_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

SegmentHeader make_segment_header(uint32_t id, uint64_t capacity_bytes, int64_t wall_ns) {
    SegmentHeader header;
    header.id = id;
    header.capacity_bytes = capacity_bytes;
    header.created_wall_ns = static_cast<uint64_t>(wall_ns);
    header.crc = header_crc(header);
    return header;
}

Result<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes) {
    SegmentHeader header;
    if (bytes.size() < sizeof(header)) {
        return make_error(Code::corrupt, "segment is cut inside its header",
                          static_cast<int64_t>(bytes.size()));
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.magic != kSegmentMagic) {
        return make_error(Code::corrupt, "segment does not start with the magic QUSG");
    }
    if (header.crc != header_crc(header)) {
        return make_error(Code::corrupt, "segment header fails its checksum");
    }
    if (header.version != kSegmentVersion) {
        return make_error(Code::unsupported,
                          "segment has version " + std::to_string(header.version) +
                              ", this build reads version " + std::to_string(kSegmentVersion));
    }
    return header;
}

std::string segment_file_name(uint32_t id) {
    char digits[9];
    std::snprintf(digits, sizeof(digits), "%08x", id);
    return std::string(kPrefix) + digits + std::string(kSuffix);
}

std::optional<uint32_t> parse_segment_file_name(std::string_view name) {
    if (name.size() != kPrefix.size() + 8 + kSuffix.size()) return std::nullopt;
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
    std::string_view digits = name.substr(kPrefix.size(), 8);
    uint32_t id = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + 8, id, 16);
    if (error != std::errc() || end != digits.data() + 8) return std::nullopt;
    if (segment_file_name(id) != name) return std::nullopt;  // upper-case digits
    return id;
}

SegmentScan scan_segment(uint64_t file_bytes, const ReadAt& read, const VisitSlab& visit,
                         const NextData& next_data) {
    SegmentScan scan;
    auto note = [&](uint64_t at, const std::string& what) {
        if (scan.first_damage.empty()) {
            scan.first_damage = "at byte " + std::to_string(at) + ": " + what;
        }
    };
    // SlabHeader on the heap: 4 KiB each, and it must be aligned for O_DIRECT readers.
    struct alignas(kSlabAlign) Page {
        std::byte bytes[kSlabHeaderBytes];
    };
    auto page = std::make_unique<Page>();
    std::span<std::byte> header_bytes(page->bytes);
    uint64_t at = kSegmentHeaderBytes;
    while (at + kSlabHeaderBytes <= file_bytes) {
        if (Status status = read(at, header_bytes); !status.ok()) {
            note(at, status.error().message);
            scan.unreadable_bytes += kSlabHeaderBytes;
            at += kSlabHeaderBytes;
            continue;
        }
        if (Status status = verify_slab_header(header_bytes); !status.ok()) {
            const bool zero = all_zero(header_bytes);
            if (!zero) {
                note(at, status.error().message);
                scan.skipped_bytes += kSlabHeaderBytes;
            }
            at += kSlabHeaderBytes;
            if (zero && next_data) {
                const uint64_t data = std::min(next_data(at), file_bytes);
                at = std::max(at, data / kSlabAlign * kSlabAlign);
            }
            continue;
        }
        const SlabHeader& header = slab_header(std::span<const std::byte>(header_bytes));
        uint64_t bytes = slab_disk_bytes(header);
        if (bytes > file_bytes - at) {
            note(at, "the slab reaches over the end of the file");
            scan.skipped_bytes += kSlabHeaderBytes;
            at += kSlabHeaderBytes;
            continue;
        }
        visit(at, header);
        scan.slabs++;
        at += bytes;
        scan.end_bytes = at;
    }
    return scan;
}

}  // namespace quire
