#include "format/segment.h"

#include <cstring>
#include <new>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/arena.h"
#include "base/hash.h"

namespace quire {
namespace {

// A segment file in memory with `count` slabs of two to five pages.
class Image {
 public:
    explicit Image(size_t count) {
        auto arena = Arena::create({.bytes = 1 << 20, .huge_pages = false});
        EXPECT_TRUE(arena.ok());
        arena_ = std::move(*arena);
        SegmentHeader header = make_segment_header(3, arena_.size(), 5);
        std::memcpy(arena_.data(), &header, sizeof(header));
        for (size_t i = 0; i < count; i++) append(i);
    }

    std::span<std::byte> bytes() { return arena_.bytes(); }
    uint64_t end() const { return end_; }
    const std::vector<uint64_t>& offsets() const { return offsets_; }

    std::vector<uint64_t> scan(SegmentScan* out = nullptr, uint64_t size = 0) {
        std::vector<uint64_t> found;
        auto read = [&](uint64_t offset, std::span<std::byte> into) -> Status {
            if (bad_page_ == offset) return make_error(Code::io, "bad sector");
            std::memcpy(into.data(), arena_.data() + offset, into.size());
            return {};
        };
        SegmentScan result =
            scan_segment(size == 0 ? arena_.size() : size, read,
                         [&](uint64_t offset, const SlabHeader&) { found.push_back(offset); });
        EXPECT_EQ(result.slabs, found.size());
        if (out != nullptr) *out = result;
        return found;
    }
    void fail_at(uint64_t page) { bad_page_ = page; }

 private:
    void append(size_t i) {
        uint32_t payload = static_cast<uint32_t>(4096 * (1 + i % 4) - 64 * (i % 3));
        auto slab = bytes().subspan(end_, slab_bytes_for(payload));
        SlabHeader& header = *new (slab.data()) SlabHeader();
        header.key = BlockKey{{i + 1, i + 77}};
        header.layer_count = 1;
        header.layer_bytes = header.payload_bytes = payload;
        header.token_count = 16;
        std::memset(slab.data() + kSlabHeaderBytes, static_cast<int>(i + 1), payload);
        seal_slab(slab);
        EXPECT_EQ(slab_disk_bytes(header), slab.size());
        offsets_.push_back(end_);
        end_ += slab.size();
    }

    Arena arena_;
    uint64_t end_ = kSegmentHeaderBytes;
    uint64_t bad_page_ = UINT64_MAX;
    std::vector<uint64_t> offsets_;
};

TEST(Segment, NamesRoundTripAndNothingElseParses) {
    for (uint32_t id : {0u, 1u, 42u, UINT32_MAX}) {
        EXPECT_EQ(parse_segment_file_name(segment_file_name(id)), id);
    }
    for (const char* name : {"", "segment-", "segment-0000002A.quire", "segment-0000002.quire",
                             "segment-0000002a.quir", "xsegment-0000002a.quire",
                             "segment-+000002a.quire", "segment-0000002a.quire.tmp"}) {
        EXPECT_FALSE(parse_segment_file_name(name).has_value()) << name;
    }
}

TEST(Segment, HeaderNoticesEveryFlippedByteAndNamesVersions) {
    SegmentHeader header = make_segment_header(9, 64 << 20, 1);
    auto raw = std::as_writable_bytes(std::span(&header, 1));
    ASSERT_TRUE(parse_segment_header(raw).ok());
    EXPECT_EQ(parse_segment_header(raw)->id, 9u);
    for (size_t i = 0; i < raw.size(); i++) {
        raw[i] ^= std::byte{0x10};
        EXPECT_EQ(parse_segment_header(raw).code(), Code::corrupt) << i;
        raw[i] ^= std::byte{0x10};
    }
    EXPECT_EQ(parse_segment_header(raw.first(100)).code(), Code::corrupt);
    header.version = kSegmentVersion + 1;
    header.crc = 0;
    header.crc = crc32c(std::as_bytes(std::span(&header, 1)));
    EXPECT_EQ(parse_segment_header(raw).code(), Code::unsupported);
}

TEST(Segment, ScanFindsEverySlab) {
    Image image(20);
    SegmentScan scan;
    EXPECT_EQ(image.scan(&scan), image.offsets());
    EXPECT_EQ(scan.end_bytes, image.end());
    EXPECT_EQ(scan.skipped_bytes, 0u);
    EXPECT_TRUE(scan.first_damage.empty()) << scan.first_damage;
}

TEST(Segment, ADamagedHeaderCostsOneSlab) {
    for (size_t victim = 0; victim < 8; victim++) {
        Image image(8);
        image.bytes()[image.offsets()[victim] + 100] ^= std::byte{1};
        std::vector<uint64_t> expected = image.offsets();
        expected.erase(expected.begin() + static_cast<ptrdiff_t>(victim));
        SegmentScan scan;
        EXPECT_EQ(image.scan(&scan), expected);
        EXPECT_GT(scan.skipped_bytes, 0u);
        EXPECT_FALSE(scan.first_damage.empty());
    }
}

TEST(Segment, AnUnreadableHeaderCostsOneSlab) {
    Image image(5);
    image.fail_at(image.offsets()[2]);
    std::vector<uint64_t> expected = image.offsets();
    expected.erase(expected.begin() + 2);
    SegmentScan scan;
    EXPECT_EQ(image.scan(&scan), expected);
    EXPECT_EQ(scan.unreadable_bytes, kSlabHeaderBytes);
}

TEST(Segment, CutAnywhereKeepsWholeSlabs) {
    Image image(6);
    for (uint64_t size = 0; size <= image.end(); size += 512) {
        std::vector<uint64_t> found =
            size == 0 ? std::vector<uint64_t>{} : image.scan(nullptr, size);
        size_t whole = 0;
        for (size_t i = 0; i < 6; i++) {
            uint64_t end = i + 1 < 6 ? image.offsets()[i + 1] : image.end();
            whole += end <= size;
        }
        EXPECT_EQ(found.size(), whole) << size;
    }
}

}  // namespace
}  // namespace quire
