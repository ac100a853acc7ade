// IndexRecord: the 64-byte unit of the disk index, used alike in the journal and in checkpoints.
//
// A record says one thing about one slab (put, erase), about one segment (drop) or about the file
// it is in (end). Its CRC32C is seeded with the file's epoch, so that a record of another file, or
// of an older life of the same disk blocks, is never taken for one of this file. Little-endian.
// Layout and crash argument: SPEC.md beside this file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "core/hash128.h"
#include "core/kv_layout.h"

namespace quire {

static_assert(std::endian::native == std::endian::little, "the on-disk format is little-endian");

// Offsets and sizes on disk count in units of 4 KiB, so that 32 bits reach 16 TiB in one segment.
inline constexpr size_t kDiskUnitBytes = kSlabAlign;

enum class RecordOp : uint8_t {
    put = 1,           // the slab `key` lies in `segment` at `offset_units`, `units` long
    erase = 2,         // forget `key` if it still lies at exactly that place
    drop_segment = 3,  // forget everything in `segment`
    end = 4,           // last record of a checkpoint; `value` = number of records before it
};

struct IndexRecord {
    uint32_t crc = 0;
    RecordOp op = RecordOp::put;
    uint8_t hits = 0;  // how often it was read, saturating; a hint that survives restarts
    uint16_t units = 0;
    uint64_t sequence = 0;  // rises by one per record over the whole life of the directory
    BlockKey key;
    BlockKey parent_key;
    uint32_t segment = 0;
    uint32_t offset_units = 0;
    uint32_t value = 0;
    uint32_t reserved = 0;
};
inline constexpr size_t kRecordBytes = 64;
static_assert(sizeof(IndexRecord) == kRecordBytes);

// Fills record.crc for a file of that epoch.
void seal_record(IndexRecord& record, uint64_t epoch);
// True when the CRC fits and the op is known.
bool record_is_sound(const IndexRecord& record, uint64_t epoch);

enum class IndexFileKind : uint32_t { journal = 1, checkpoint = 2 };

inline constexpr uint32_t kIndexMagic = 0x58495551;  // "QUIX"
inline constexpr uint16_t kIndexVersion = 1;

// The first 64 bytes of a journal or checkpoint.
struct IndexFileHeader {
    uint32_t magic = kIndexMagic;
    uint16_t version = kIndexVersion;
    uint16_t record_bytes = kRecordBytes;
    IndexFileKind kind = IndexFileKind::journal;
    uint32_t crc = 0;  // CRC32C of the header with this field zero
    uint64_t epoch = 0;
    uint64_t first_sequence = 0;  // journal: of its first record; checkpoint: first it leaves out
    uint64_t created_wall_ns = 0;
    uint64_t record_count = 0;  // checkpoint: records before `end`; journal: 0
    uint64_t reserved[2] = {};
};
static_assert(sizeof(IndexFileHeader) == kRecordBytes);

IndexFileHeader make_index_header(IndexFileKind kind, uint64_t epoch, uint64_t first_sequence,
                                  uint64_t record_count, int64_t wall_ns);
// corrupt when damaged; unsupported (naming both versions) when sound but of another version.
Result<IndexFileHeader> parse_index_header(std::span<const std::byte> bytes, IndexFileKind kind);

// What a scan met. `sound_bytes` is the offset just after the last sound record: a journal is cut
// there.
struct RecordScan {
    uint64_t records = 0;          // sound ones
    uint64_t corrupt_records = 0;  // damaged ones with a sound one after them
    uint64_t tail_bytes = 0;       // bytes after the last sound record
    uint64_t sound_bytes = sizeof(IndexFileHeader);
    uint64_t last_sequence = 0;
    bool ended = false;  // an `end` record with the right count was met
};

// Walks the records of one file that arrive in pieces, in order. Because records have one size, a
// damaged one is skipped and the next is tried; what it said is lost, and reads verify slabs
// anyway.
class RecordScanner {
 public:
    using Visit = std::function<void(const IndexRecord&)>;

    explicit RecordScanner(const IndexFileHeader& header) : epoch_(header.epoch) {}
    // `bytes` continues where the last call ended; only the last call may bring a partial record.
    void feed(std::span<const std::byte> bytes, const Visit& visit);
    // So many bytes, whole records, are known to be no sound ones (a hole in the file).
    void skip(uint64_t bytes);
    const RecordScan& result() const { return scan_; }

 private:
    void take(const IndexRecord& record, const Visit& visit);

    uint64_t epoch_;
    uint64_t pending_corrupt_ = 0;
    RecordScan scan_;
};

}  // namespace quire
