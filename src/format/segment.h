// The segment: a file of slabs laid one after the other, which can be read without any index.
//
// A segment is one 4 KiB header and then slabs (format/slab.h), each aligned to 4 KiB. Nothing in
// it is ever overwritten: a segment is filled once, front to back, and deleted whole. Bytes after
// the last slab are zero or missing. Layout and crash argument: SPEC.md beside this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/slab.h"

namespace quire {

inline constexpr uint32_t kSegmentMagic = 0x47535551;  // "QUSG"
inline constexpr uint16_t kSegmentVersion = 1;
inline constexpr size_t kSegmentHeaderBytes = 4096;

struct SegmentHeader {
    uint32_t magic = kSegmentMagic;
    uint16_t version = kSegmentVersion;
    uint16_t reserved0 = 0;
    uint32_t crc = 0;  // CRC32C of the 4096 bytes with this field zero
    uint32_t id = 0;   // also in the file's name; rises, never used twice in a directory
    uint64_t capacity_bytes = 0;
    uint64_t created_wall_ns = 0;
    std::array<std::byte, 4064> reserved{};
};
static_assert(sizeof(SegmentHeader) == kSegmentHeaderBytes);

// Fills magic, version and crc around the given fields.
SegmentHeader make_segment_header(uint32_t id, uint64_t capacity_bytes, int64_t wall_ns);
// corrupt when damaged; unsupported (naming both versions) when sound but of another version.
Result<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes);

// "segment-0000002a.quire" <-> 42. Anything else parses to nothing.
std::string segment_file_name(uint32_t id);
std::optional<uint32_t> parse_segment_file_name(std::string_view name);

// Bytes that a slab with this (verified) header takes on disk: header, payload, padding.
inline uint64_t slab_disk_bytes(const SlabHeader& header) {
    uint64_t payload = header.payload_bytes;
    return kSlabHeaderBytes + (payload + kSlabAlign - 1) / kSlabAlign * kSlabAlign;
}

// Reads `into.size()` bytes at `offset`, or says why not.
using ReadAt = std::function<Status(uint64_t offset, std::span<std::byte> into)>;
// A slab whose header is sound, at `offset`. Its payload was not looked at.
using VisitSlab = std::function<void(uint64_t offset, const SlabHeader& header)>;

struct SegmentScan {
    uint64_t slabs = 0;
    uint64_t skipped_bytes = 0;  // not zero, yet not a slab header: damage
    uint64_t unreadable_bytes = 0;
    uint64_t end_bytes = kSegmentHeaderBytes;  // just after the last sound slab
    std::string first_damage;                  // for people; empty when there is none
};

// The first byte at or after `offset` that is not in a hole of the file; the largest number when
// there is none.
using NextData = std::function<uint64_t(uint64_t offset)>;

// Walks the slab headers of a segment file of `file_bytes`, reading 4 KiB a slab; after damage it
// tries every following 4 KiB boundary, so that one bad header costs one slab. Zero pages are
// stepped over, and with `next_data` all of a hole at once.
SegmentScan scan_segment(uint64_t file_bytes, const ReadAt& read, const VisitSlab& visit,
                         const NextData& next_data = {});

}  // namespace quire
