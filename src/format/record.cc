#include "format/record.h"

#include <cstring>
#include <string>

#include "base/hash.h"

namespace quire {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}

uint32_t header_crc(IndexFileHeader header) {
    header.crc = 0;
    return crc32c(bytes_of(header));
}

uint32_t record_crc(const IndexRecord& record, uint64_t epoch) {
    uint32_t seed = crc32c(bytes_of(epoch));
    return crc32c(bytes_of(record).subspan(sizeof(record.crc)), seed);
}

}  // namespace

void seal_record(IndexRecord& record, uint64_t epoch) {
    record.crc = record_crc(record, epoch);
}

bool record_is_sound(const IndexRecord& record, uint64_t epoch) {
    auto op = static_cast<uint8_t>(record.op);
    return op >= static_cast<uint8_t>(RecordOp::put) && op <= static_cast<uint8_t>(RecordOp::end) &&
           record.crc == record_crc(record, epoch);
}

IndexFileHeader make_index_header(IndexFileKind kind, uint64_t epoch, uint64_t first_sequence,
                                  uint64_t record_count, int64_t wall_ns) {
    IndexFileHeader header;
    header.kind = kind;
    header.epoch = epoch;
    header.first_sequence = first_sequence;
    header.record_count = record_count;
    header.created_wall_ns = static_cast<uint64_t>(wall_ns);
    header.crc = header_crc(header);
    return header;
}

Result<IndexFileHeader> parse_index_header(std::span<const std::byte> bytes, IndexFileKind kind) {
    IndexFileHeader header;
    if (bytes.size() < sizeof(header)) {
        return make_error(Code::corrupt,
                          "index file is cut inside its header: " + std::to_string(bytes.size()) +
                              " of " + std::to_string(sizeof(header)) + " bytes",
                          static_cast<int64_t>(bytes.size()));
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.magic != kIndexMagic) {
        return make_error(Code::corrupt, "index file does not start with the magic QUIX");
    }
    if (header.crc != header_crc(header)) {
        return make_error(Code::corrupt, "index file header fails its checksum");
    }
    if (header.version != kIndexVersion) {
        return make_error(Code::unsupported,
                          "index file has version " + std::to_string(header.version) +
                              ", this build reads version " + std::to_string(kIndexVersion));
    }
    if (header.kind != kind || header.record_bytes != kRecordBytes) {
        return make_error(Code::corrupt, "index file is not of the kind its name says");
    }
    return header;
}

void RecordScanner::take(const IndexRecord& record, const Visit& visit) {
    if (!record_is_sound(record, epoch_)) {
        pending_corrupt_++;
        scan_.tail_bytes += kRecordBytes;
        return;
    }
    scan_.corrupt_records += pending_corrupt_;
    pending_corrupt_ = 0;
    scan_.sound_bytes += scan_.tail_bytes + kRecordBytes;
    scan_.tail_bytes = 0;
    if (record.op == RecordOp::end) {
        scan_.ended = scan_.corrupt_records == 0 && record.value == scan_.records;
        return;
    }
    scan_.records++;
    if (record.sequence > scan_.last_sequence) scan_.last_sequence = record.sequence;
    visit(record);
}

void RecordScanner::feed(std::span<const std::byte> bytes, const Visit& visit) {
    while (bytes.size() >= kRecordBytes) {
        IndexRecord record;
        std::memcpy(&record, bytes.data(), kRecordBytes);
        take(record, visit);
        bytes = bytes.subspan(kRecordBytes);
    }
    scan_.tail_bytes += bytes.size();
}

void RecordScanner::skip(uint64_t bytes) {
    pending_corrupt_ += bytes / kRecordBytes;
    scan_.tail_bytes += bytes;
}

}  // namespace quire
