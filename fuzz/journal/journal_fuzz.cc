// A journal or checkpoint of any bytes: every record shown is sound, counts add up, and cutting the
// file into other pieces changes nothing.
//
// First byte: bit 0 seals the header after mutation, bit 1 seals every record, bits 2 and up choose
// the size of the pieces.
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "format/record.h"

namespace {

using quire::IndexFileHeader;
using quire::IndexRecord;
using quire::kRecordBytes;

void seal_file(std::vector<std::byte>& file, bool records) {
    if (file.size() < kRecordBytes) return;
    IndexFileHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    header.magic = quire::kIndexMagic;
    header.version = quire::kIndexVersion;
    header.record_bytes = kRecordBytes;
    header.kind = quire::IndexFileKind::journal;
    header.crc = 0;
    header.crc = quire::crc32c(std::as_bytes(std::span(&header, 1)));
    std::memcpy(file.data(), &header, sizeof header);
    for (size_t at = kRecordBytes; records && at + kRecordBytes <= file.size();
         at += kRecordBytes) {
        IndexRecord record;
        std::memcpy(&record, file.data() + at, sizeof record);
        quire::seal_record(record, header.epoch);
        std::memcpy(file.data() + at, &record, sizeof record);
    }
}

struct Seen {
    std::vector<uint64_t> sequences;
    quire::RecordScan scan;
};

Seen scan_in_pieces(const IndexFileHeader& header, std::span<const std::byte> body, size_t piece) {
    Seen seen;
    quire::RecordScanner scanner(header);
    auto visit = [&](const IndexRecord& record) {
        QUIRE_CHECK(quire::record_is_sound(record, header.epoch), "an unsound record was shown");
        seen.sequences.push_back(record.sequence);
    };
    // All but the last piece hold whole records, as RecordScanner asks for.
    piece *= kRecordBytes;
    for (size_t at = 0; at < body.size(); at += piece) {
        scanner.feed(body.subspan(at, std::min(piece, body.size() - at)), visit);
    }
    seen.scan = scanner.result();
    return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    std::vector<std::byte> file(size - 1);
    std::memcpy(file.data(), data + 1, file.size());
    if ((data[0] & 1) != 0) seal_file(file, (data[0] & 2) != 0);
    auto header = quire::parse_index_header(file, quire::IndexFileKind::journal);
    (void)quire::parse_index_header(file, quire::IndexFileKind::checkpoint).ok();
    if (!header.ok()) return 0;

    const auto body = std::span<const std::byte>(file).subspan(sizeof(IndexFileHeader));
    const Seen whole = scan_in_pieces(*header, body, body.size() + 1);
    const Seen pieces = scan_in_pieces(*header, body, 1 + (data[0] >> 2) % 7);
    QUIRE_CHECK(whole.sequences == pieces.sequences, "pieces change what a scan finds");
    QUIRE_CHECK(whole.scan.sound_bytes == pieces.scan.sound_bytes, "pieces change where it ends");
    QUIRE_CHECK(whole.scan.records <= body.size() / kRecordBytes, "more records than bytes");
    QUIRE_CHECK(whole.scan.sound_bytes <= file.size(), "sound bytes beyond the end");
    return 0;
}
