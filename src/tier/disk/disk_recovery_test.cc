// Recovery: from damaged, lost and very large indexes.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "format/segment.h"
#include "tier/disk/recovery.h"
#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;
namespace fs = std::filesystem;

constexpr uint64_t kSlabs = 20;
#ifdef QUIRE_SANITIZED
constexpr uint64_t kFlipStep = 37;
#else
constexpr uint64_t kFlipStep = 3;  // meets every field
#endif

std::vector<fs::path> files_named(const std::string& dir, const std::string& start) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(dir)) {
        if (entry.path().filename().string().starts_with(start)) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
}

void flip(const fs::path& file, uint64_t offset, uint8_t mask = 0x20) {
    int fd = ::open(file.c_str(), O_RDWR);
    uint8_t byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    byte ^= mask;
    ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    ::close(fd);
}

// A directory as kill -9 leaves it: a checkpoint of slabs 1 to 10 and a journal of 11 to 20.
class Crashed {
 public:
    Crashed() {
        for (uint64_t i = 1; i <= kSlabs; i++) slabs_.push_back(make_slab(i, i - 1, 4096, 1));
        DiskOptions options = DiskFixture::defaults();
        options.direct_io = false;
        DiskFixture disk(options);
        put(disk, 0, 10);
        disk.reopen();
        put(disk, 10, 20);
        fs::copy(disk.dir().path(), dir_.path());
    }
    const std::string& dir() const { return dir_.path(); }
    fs::path file(const std::string& start) const { return files_named(dir(), start).back(); }
    const AlignedBytes& slab(uint64_t number) const { return slabs_[number - 1]; }

    // Which slabs the index finds now.
    std::vector<uint64_t> recovered(Recovered* out = nullptr) const {
        auto dir = DiskDir::open(dir_.path(), DirUse::read);
        EXPECT_TRUE(dir.ok());
        Catalog catalog;
        auto found = recover_index(**dir, catalog, Scan::if_lost);
        EXPECT_TRUE(found.ok());
        if (out != nullptr) *out = *found;
        std::vector<uint64_t> numbers;
        for (uint64_t i = 1; i <= kSlabs; i++) {
            Slot slot = catalog.find(test_key(i));
            if (slot == kNoSlot) continue;
            numbers.push_back(i);
            EXPECT_EQ(catalog.at(slot).units, slab(i).size() / 4096);
        }
        return numbers;
    }

 private:
    void put(DiskFixture& disk, uint64_t from, uint64_t to) {
        for (uint64_t i = from; i < to; i++) {
            QUIRE_CHECK(put_one(disk.store(), slabs_[i]).ok(), "put");
        }
    }
    TempDir dir_;
    std::vector<AlignedBytes> slabs_;
};

TEST(DiskRecovery, FindsCheckpointAndJournal) {
    Crashed crashed;
    EXPECT_EQ(fs::file_size(crashed.file("journal-")), 64 + 10 * 64u);
    EXPECT_EQ(fs::file_size(crashed.file("checkpoint-")), 64 + 11 * 64u);
    Recovered found;
    EXPECT_EQ(crashed.recovered(&found).size(), kSlabs);
    EXPECT_EQ(found.records, kSlabs);
    EXPECT_EQ(found.corrupt_records, 0u);
    EXPECT_EQ(found.scanned_segments, 0u);
}

// Any flipped byte of journal or checkpoint: at most the one record's slab is missing.
TEST(DiskRecovery, EveryFlippedIndexByteCostsAtMostOneSlab) {
    for (const char* kind : {"journal-", "checkpoint-"}) {
        Crashed crashed;
        const fs::path file = crashed.file(kind);
        const uint64_t size = fs::file_size(file);
        for (uint64_t at = 0; at < size; at += kFlipStep) {
            flip(file, at);
            EXPECT_GE(crashed.recovered().size(), kSlabs - 1) << kind << " byte " << at;
            flip(file, at);
        }
        EXPECT_EQ(crashed.recovered().size(), kSlabs);
    }
}

TEST(DiskRecovery, AJournalCutAnywhereKeepsWhatIsBefore) {
    Crashed crashed;
    const fs::path file = crashed.file("journal-");
    for (uint64_t size = fs::file_size(file); size >= 64; size -= 16) {
        fs::resize_file(file, size);
        Recovered found;
        EXPECT_EQ(crashed.recovered(&found).size(), 10 + (size - 64) / 64) << size;
        EXPECT_EQ(found.torn.size(), size % 64 == 0 ? 0u : 1u);
    }
}

TEST(DiskRecovery, ATornTailIsCutAndTheStoreGoesOn) {
    Crashed crashed;
    const fs::path file = crashed.file("journal-");
    std::ofstream(file, std::ios::app | std::ios::binary) << "half a record, and then the power";
    DiskOptions options = DiskFixture::defaults();
    options.dir = crashed.dir();
    DiskFixture disk(options);
    EXPECT_EQ(disk.store().stats().blocks, kSlabs);
    EXPECT_EQ(fs::file_size(file) % 64, 0u);
    ASSERT_TRUE(put_one(disk.store(), make_slab(99)).ok());
    disk.reopen();
    EXPECT_EQ(disk.store().stats().blocks, kSlabs + 1);
    for (uint64_t i = 1; i <= kSlabs; i++) EXPECT_TRUE(reads_back(disk.store(), crashed.slab(i)));
}

TEST(DiskRecovery, ALostIndexIsFoundAgainInTheSlabs) {
    for (const char* lost : {"checkpoint-", "journal-"}) {
        Crashed crashed;
        for (const fs::path& file : files_named(crashed.dir(), lost)) fs::remove(file);
        if (lost[0] == 'c') {
            Recovered found;
            EXPECT_EQ(crashed.recovered(&found).size(), kSlabs);
            EXPECT_GT(found.scanned_segments, 0u);
        } else {
            EXPECT_EQ(crashed.recovered().size(), 10u) << "the checkpoint alone";
        }
        auto rebuilt = rebuild_index(crashed.dir());
        ASSERT_TRUE(rebuilt.ok()) << rebuilt.error().message;
        EXPECT_EQ(*rebuilt, kSlabs);
        Recovered found;
        EXPECT_EQ(crashed.recovered(&found).size(), kSlabs);
        EXPECT_EQ(found.scanned_segments, 0u) << "the new index is whole";
    }
}

// One byte of each class of a segment's bytes is flipped, each in another slab: exactly those are
// misses, everything else is served.
TEST(DiskRecovery, EveryFlippedSegmentByteIsNoticed) {
    constexpr uint64_t kCount = 256;
    DiskOptions options = DiskFixture::defaults();
    options.direct_io = false;
    DiskFixture disk(options);
    std::vector<AlignedBytes> slabs;
    std::vector<TierPut> puts;
    for (uint64_t i = 1; i <= kCount; i++) slabs.push_back(make_slab(i, i - 1, 4000, 1));
    for (const auto& slab : slabs) puts.push_back(put_of(slab));
    for (const Status& status : put_wait(disk.store(), puts)) ASSERT_TRUE(status.ok());
    for (const fs::path& file : files_named(disk.dir().path(), "segment-")) {
        flip(file, 100);  // the segment's own header is not needed to read
        for (uint64_t i = 0; i + 1 < fs::file_size(file) / 8192; i += 2) {
            flip(file, 4096 + i * 8192 + i * 32 % 8192);
        }
    }
    size_t served = 0, corrupt = 0;
    for (uint64_t i = 1; i <= kCount; i++) {
        AlignedBytes into(slabs[0].size());
        Status status = get_one(disk.store(), test_key(i), into);
        served += status.ok();
        corrupt += status.code() == Code::corrupt;
        EXPECT_EQ(status.ok(), holds(disk.store(), test_key(i)));
        if (status.ok()) {
            EXPECT_TRUE(same_bytes(into, slabs[i - 1]));
        }
    }
    EXPECT_EQ(served + corrupt, kCount);
    EXPECT_NEAR(static_cast<double>(corrupt), kCount / 2.0, 1.0);
    EXPECT_EQ(disk.store().stats().corrupt_blocks, corrupt);
}

TEST(DiskRecovery, ACutSegmentLosesOnlyWhatWasCut) {
    Crashed crashed;
    const fs::path file = crashed.file("segment-");
    fs::resize_file(file, 4096 + 5 * 8192 + 4096);  // in the middle of slab 16
    Recovered found;
    EXPECT_EQ(crashed.recovered(&found).size(), 15u);
    EXPECT_EQ(found.stale_records, 5u);
    const auto report = inspect_disk(crashed.dir(), true);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->blocks, 15u);
    EXPECT_EQ(report->lost_blocks, 5u);
    ASSERT_EQ(report->damage.size(), 1u);
    EXPECT_EQ(report->damage[0].file, file.filename());
    DiskOptions options = DiskFixture::defaults();
    options.dir = crashed.dir();
    DiskFixture disk(options);
    for (uint64_t i = 1; i <= 15; i++) EXPECT_TRUE(reads_back(disk.store(), crashed.slab(i))) << i;
    EXPECT_TRUE(put_one(disk.store(), crashed.slab(16)).ok());
}

// The journal tells of slabs whose segments were cleaned since: that is history and no loss.
TEST(DiskRecovery, ACleanedSegmentIsNotALoss) {
    DiskOptions options = DiskFixture::defaults();
    options.direct_io = false;
    options.capacity_bytes = 8 << 20;
    DiskFixture disk(options);
    TempDir copy;
    for (uint64_t i = 1; i <= 400; i++) {
        ASSERT_TRUE(put_one(disk.store(), make_slab(i, 0, 60000, 1)).ok());
        if (i % 7 == 0) (void)reads_back(disk.store(), make_slab(i, 0, 60000, 1));  // hot: moved
    }
    EXPECT_GT(disk.store().stats().evicted_blocks, 0u);
    fs::copy(disk.dir().path(), copy.path());  // as kill -9 leaves it
    for (int life = 0; life < 2; ++life) {
        auto dir = DiskDir::open(copy.path(), DirUse::read);
        ASSERT_TRUE(dir.ok());
        Catalog catalog;
        auto found = recover_index(**dir, catalog, Scan::if_lost);
        ASSERT_TRUE(found.ok());
        EXPECT_GT(found->records, 400u);
        EXPECT_EQ(found->stale_records, 0u);
        // Recovery deletes segments without live slabs and writes nothing about them.
        for (uint32_t id : found->orphans) fs::remove(copy.path() + "/" + segment_file_name(id));
    }
}

TEST(DiskRecovery, InspectTellsWhatIsThereAndWhatIsDamaged) {
    Crashed crashed;
    auto clean = inspect_disk(crashed.dir(), true);
    ASSERT_TRUE(clean.ok()) << clean.error().message;
    EXPECT_EQ(clean->format_version, 1u);
    EXPECT_EQ(clean->blocks, kSlabs);
    EXPECT_EQ(clean->verified_blocks, kSlabs);
    EXPECT_EQ(clean->blocks_by_model.size(), 3u);
    EXPECT_EQ(clean->blocks_by_tenant.at(""), kSlabs);
    EXPECT_EQ(clean->blocks_by_codec.at(kCodecRaw16), kSlabs);
    EXPECT_EQ(clean->damaged_blocks, 0u);
    EXPECT_TRUE(clean->damage.empty()) << clean->damage[0].what;
    const auto before = fs::last_write_time(crashed.file("journal-"));
    const fs::path segment = crashed.file("segment-");
    flip(segment, 4096 + 3 * 8192 + 5000);
    uint64_t calls = 0;
    auto quick = inspect_disk(crashed.dir(), false);
    EXPECT_EQ(quick->damaged_blocks, 0u) << "headers alone do not show it";
    auto damaged = inspect_disk(crashed.dir(), true, [&](uint64_t, uint64_t) { calls++; });
    ASSERT_TRUE(damaged.ok());
    EXPECT_EQ(damaged->damaged_blocks, 1u);
    ASSERT_EQ(damaged->damage.size(), 1u);
    EXPECT_EQ(damaged->damage[0].file, segment.filename().string());
    EXPECT_GT(calls, 0u);
    EXPECT_EQ(fs::last_write_time(crashed.file("journal-")), before) << "nothing was changed";
    EXPECT_EQ(inspect_disk("/nonexistent/quire", true).code(), Code::io);
}

// A tebibyte of (sparse) segments with 700,000 slabs opens in seconds: only the index is read.
TEST(DiskRecovery, ATebibyteOpensInSeconds) {
#ifdef QUIRE_SANITIZED
    constexpr uint64_t kMany = 70'000, kSegments = 103;
#else
    constexpr uint64_t kMany = 700'000, kSegments = 1024;
#endif
    constexpr uint64_t kPerSegment = 683, kUnits = 383;  // 1.5 MiB each, 1 GiB a segment
    TempDir dir;
    const AlignedBytes real = make_slab(1, 0, (kUnits - 1) * 4096, 1);
    {
        auto opened = DiskDir::open(dir.path(), DirUse::write);
        ASSERT_TRUE(opened.ok());
        Catalog catalog;
        for (uint32_t id = 1; id <= kSegments + 1; id++) {
            catalog.add_segment(id, 1 << 30, true);
            auto fd = (*opened)->open_file(segment_file_name(id), O_RDWR | O_CREAT);
            ASSERT_TRUE(fd.ok());
            ASSERT_EQ(::ftruncate(fd->get(), 1 << 30), 0);
            if (id == 1) {
                ASSERT_EQ(::pwrite(fd->get(), real.span().data(), real.size(), 4096),
                          static_cast<ssize_t>(real.size()));
            }
        }
        catalog.reserve(kMany);
        for (uint64_t i = 0; i < kMany; i++) {
            DiskPlace place{static_cast<uint32_t>(1 + i / kPerSegment),
                            static_cast<uint32_t>(1 + i % kPerSegment * kUnits), kUnits};
            catalog.publish(test_key(i + 1), i % 64 == 0 ? BlockKey{} : test_key(i), place, 1);
        }
        auto io = make_io_engine({});
        IndexLog log(**opened, **io, system_clock(), {});
        ASSERT_TRUE(log.checkpoint(catalog).ok());
    }
    DiskOptions options = DiskFixture::defaults();
    options.dir = dir.path();
    options.capacity_bytes = 2ull << 40;
    const int64_t start = system_clock().monotonic_ns();
    DiskFixture disk(options);
    const double seconds = static_cast<double>(system_clock().monotonic_ns() - start) / 1e9;
    RecordProperty("open_seconds", std::to_string(seconds));
    EXPECT_LT(seconds, 10.0);
    EXPECT_EQ(disk.store().stats().blocks, kMany);
    EXPECT_TRUE(holds(disk.store(), test_key(kMany)));
    EXPECT_TRUE(reads_back(disk.store(), real));
    EXPECT_TRUE(put_one(disk.store(), make_slab(kMany + 7)).ok());
}

}  // namespace
}  // namespace quire
