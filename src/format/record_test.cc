#include "format/record.h"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"

namespace quire {
namespace {

constexpr uint64_t kEpoch = 7;

IndexRecord sample(uint64_t i) {
    IndexRecord record;
    record.op = RecordOp::put;
    record.units = static_cast<uint16_t>(2 + i % 9);
    record.sequence = i;
    record.key = BlockKey{{i * 3, i * 5}};
    record.segment = static_cast<uint32_t>(i / 4);
    record.offset_units = static_cast<uint32_t>(1 + i);
    seal_record(record, kEpoch);
    return record;
}

// A file of `count` records after a header.
std::vector<std::byte> file_of(size_t count) {
    IndexFileHeader header = make_index_header(IndexFileKind::journal, kEpoch, 1, 0, 99);
    std::vector<std::byte> bytes(sizeof(header) + count * kRecordBytes);
    std::memcpy(bytes.data(), &header, sizeof(header));
    for (size_t i = 0; i < count; i++) {
        IndexRecord record = sample(i + 1);
        std::memcpy(bytes.data() + sizeof(header) + i * kRecordBytes, &record, kRecordBytes);
    }
    return bytes;
}

RecordScan scan(std::span<const std::byte> bytes, std::vector<uint64_t>* sequences = nullptr) {
    auto header = parse_index_header(bytes, IndexFileKind::journal);
    EXPECT_TRUE(header.ok());
    RecordScanner scanner(*header);
    scanner.feed(bytes.subspan(sizeof(IndexFileHeader)), [&](const IndexRecord& record) {
        if (sequences != nullptr) sequences->push_back(record.sequence);
    });
    return scanner.result();
}

TEST(Record, RoundTrip) {
    auto bytes = file_of(10);
    std::vector<uint64_t> sequences;
    RecordScan result = scan(bytes, &sequences);
    EXPECT_EQ(result.records, 10u);
    EXPECT_EQ(result.corrupt_records, 0u);
    EXPECT_EQ(result.tail_bytes, 0u);
    EXPECT_EQ(result.sound_bytes, bytes.size());
    EXPECT_EQ(result.last_sequence, 10u);
    EXPECT_EQ(sequences.size(), 10u);
}

TEST(Record, EveryFlippedBitIsNoticed) {
    IndexRecord record = sample(3);
    ASSERT_TRUE(record_is_sound(record, kEpoch));
    EXPECT_FALSE(record_is_sound(record, kEpoch + 1)) << "a record of another file";
    for (size_t bit = 0; bit < kRecordBytes * 8; bit++) {
        std::byte raw[kRecordBytes];
        std::memcpy(raw, &record, kRecordBytes);
        raw[bit / 8] ^= std::byte{static_cast<uint8_t>(1u << (bit % 8))};
        IndexRecord damaged;
        std::memcpy(&damaged, raw, kRecordBytes);
        EXPECT_FALSE(record_is_sound(damaged, kEpoch)) << "bit " << bit;
    }
}

TEST(Record, EveryFlippedHeaderBitIsNoticed) {
    const auto bytes = file_of(0);
    for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
        auto damaged = bytes;
        damaged[bit / 8] ^= std::byte{static_cast<uint8_t>(1u << (bit % 8))};
        EXPECT_FALSE(parse_index_header(damaged, IndexFileKind::journal).ok()) << "bit " << bit;
    }
    EXPECT_FALSE(parse_index_header(bytes, IndexFileKind::checkpoint).ok());
}

TEST(Record, AnotherVersionIsNamed) {
    IndexFileHeader later = make_index_header(IndexFileKind::journal, 1, 1, 0, 0);
    later.version = kIndexVersion + 1;
    later.crc = 0;
    later.crc = crc32c(std::as_bytes(std::span(&later, 1)));
    auto parsed = parse_index_header(std::as_bytes(std::span(&later, 1)), IndexFileKind::journal);
    ASSERT_EQ(parsed.code(), Code::unsupported);
    EXPECT_NE(parsed.error().message.find("version 2"), std::string::npos);
    EXPECT_NE(parsed.error().message.find("version 1"), std::string::npos);
}

TEST(Record, CutAnywhereKeepsWholeRecordsBefore) {
    const auto bytes = file_of(4);
    for (size_t cut = sizeof(IndexFileHeader); cut <= bytes.size(); cut++) {
        RecordScan result = scan(std::span(bytes).first(cut));
        size_t whole = (cut - sizeof(IndexFileHeader)) / kRecordBytes;
        EXPECT_EQ(result.records, whole) << cut;
        EXPECT_EQ(result.sound_bytes, sizeof(IndexFileHeader) + whole * kRecordBytes) << cut;
        EXPECT_EQ(result.tail_bytes, cut - result.sound_bytes) << cut;
        EXPECT_EQ(result.corrupt_records, 0u) << cut;
    }
}

TEST(Record, DamageInTheMiddleCostsOneRecord) {
    for (size_t victim = 0; victim < 5; victim++) {
        auto bytes = file_of(6);
        bytes[sizeof(IndexFileHeader) + victim * kRecordBytes + 20] ^= std::byte{0x40};
        std::vector<uint64_t> sequences;
        RecordScan result = scan(bytes, &sequences);
        EXPECT_EQ(result.records, 5u);
        EXPECT_EQ(result.corrupt_records, 1u);
        EXPECT_EQ(result.tail_bytes, 0u);
        for (uint64_t sequence : sequences) EXPECT_NE(sequence, victim + 1);
    }
}

TEST(Record, ArrivalInPiecesIsTheSame) {
    const auto bytes = file_of(20);
    auto header = parse_index_header(bytes, IndexFileKind::journal);
    std::mt19937_64 random(11);
    RecordScanner scanner(*header);
    size_t at = sizeof(IndexFileHeader);
    size_t visited = 0;
    while (at < bytes.size()) {
        size_t records = 1 + random() % 4;
        size_t take = std::min(records * kRecordBytes, bytes.size() - at);
        scanner.feed(std::span(bytes).subspan(at, take), [&](const IndexRecord&) { visited++; });
        at += take;
    }
    EXPECT_EQ(visited, 20u);
    EXPECT_EQ(scanner.result().sound_bytes, bytes.size());
}

TEST(Record, EndCountsOnlyWhenAllIsThere) {
    for (uint32_t claimed : {3u, 4u}) {
        auto bytes = file_of(3);
        IndexRecord end;
        end.op = RecordOp::end;
        end.value = claimed;
        seal_record(end, kEpoch);
        const auto* raw = reinterpret_cast<const std::byte*>(&end);
        bytes.insert(bytes.end(), raw, raw + kRecordBytes);
        EXPECT_EQ(scan(bytes).ended, claimed == 3);
        bytes[sizeof(IndexFileHeader) + 5] ^= std::byte{1};
        EXPECT_FALSE(scan(bytes).ended);
    }
}

}  // namespace
}  // namespace quire
