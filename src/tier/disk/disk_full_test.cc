// A device that is full though our own limit is not reached: what is stored stays, and what cannot
// be recorded is not written.
#include <atomic>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;
namespace fs = std::filesystem;

constexpr int64_t kRetryOverNs = 60'000'000'000;
constexpr uint64_t kSlabsPerSegment = (2 << 20) / 20480;  // default slabs, segments of 2 MiB

Fault no_space(const char* path_part) {
    Fault fault;
    fault.op = IoOp::write;
    fault.error_number = ENOSPC;
    fault.path_part = path_part;
    fault.times = kAlways;
    return fault;
}

uint64_t segment_bytes(const std::string& dir) {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(dir)) {
        if (entry.path().filename().string().starts_with("segment-")) bytes += entry.file_size();
    }
    return bytes;
}

TEST(DiskFull, WithoutAJournalNothingIsWrittenAndNothingKept) {
    DiskFixture disk;
    ASSERT_TRUE(put_one(disk.store(), make_slab(1)).ok());
    std::atomic<int> slab_writes{0};
    Fault count;  // applies to nothing
    count.path_part = "segment-";
    count.matches = [&](const IoRequest& request) {
        slab_writes += request.op == IoOp::write && request.offset > 0;
        return false;
    };
    disk.io().add(count);
    disk.io().add(no_space("journal-"));
    for (uint64_t i = 2; i < 40; ++i) {
        EXPECT_EQ(put_one(disk.store(), make_slab(i)).code(), Code::full);
        EXPECT_TRUE(disk.store().stats().degraded);
        disk.clock().advance(kRetryOverNs);
    }
    EXPECT_EQ(slab_writes, 1) << "only the one that met the failure";
    EXPECT_EQ(disk.store().stats().blocks, 1u);
    EXPECT_LE(segment_bytes(disk.dir().path()), 4096u + 20480u) << "what was not published goes";
    disk.io().clear();
    EXPECT_TRUE(put_one(disk.store(), make_slab(40)).ok()) << "by itself, when space is back";
    EXPECT_FALSE(disk.store().stats().degraded);
    disk.reopen();
    EXPECT_TRUE(reads_back(disk.store(), make_slab(1)));
    EXPECT_TRUE(reads_back(disk.store(), make_slab(40)));
    EXPECT_EQ(disk.store().stats().blocks, 2u);
}

// Blocks that lie in a segment with others: the others stay.
TEST(DiskFull, AFailedSlabWriteGivesItsSpaceBack) {
    DiskFixture disk;
    for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(put_one(disk.store(), make_slab(i)).ok());
    disk.io().add(no_space("segment-"));
    for (uint64_t i = 4; i < 10; ++i) {
        EXPECT_EQ(put_one(disk.store(), make_slab(i)).code(), Code::full);
        disk.clock().advance(kRetryOverNs);
    }
    EXPECT_EQ(segment_bytes(disk.dir().path()), 4096u + 3 * 20480u);
    for (uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(reads_back(disk.store(), make_slab(i)));
}

class SmallDevice : public ::testing::Test {
 protected:
    void SetUp() override {
        if (::mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, "size=24m") != 0)
            GTEST_SKIP() << "mounting is not permitted here; ENOSPC is injected elsewhere";
        mounted_ = true;
        DiskOptions options = DiskFixture::defaults();
        options.dir = dir_.path() + "/store";
        disk_ = std::make_unique<DiskFixture>(options);
    }
    void TearDown() override {
        disk_.reset();
        if (!mounted_) return;
        EXPECT_EQ(::umount(dir_.path().c_str()), 0);
    }
    std::string other() const { return dir_.path() + "/other"; }
    // Somebody else takes all that is left, to the last page.
    void fill() const {
        std::ofstream out(other(), std::ios::binary | std::ios::app);
        const std::string page(4096, 'x');
        while (out.write(page.data(), 4096).flush()) {
        }
    }
    uint64_t load(uint64_t from, uint64_t count, bool keep_filling = false) {
        uint64_t stored = 0;
        for (uint64_t i = from; i < from + count; ++i) {
            stored += put_one(disk_->store(), make_slab(i)).ok();
            disk_->clock().advance(kRetryOverNs);
            if (keep_filling) fill();
            fewest_ = std::min(fewest_, disk_->store().stats().blocks);
        }
        return stored;
    }
    TempDir dir_;
    bool mounted_ = false;
    std::unique_ptr<DiskFixture> disk_;
    uint64_t fewest_ = UINT64_MAX;
};

TEST_F(SmallDevice, FilledByOthersKeepsItsBlocks) {
    ASSERT_EQ(load(1, 800), 800u);
    fill();
    fewest_ = UINT64_MAX;
    const uint64_t stored = load(1001, 600);
    EXPECT_GE(fewest_, 800 - 3 * kSlabsPerSegment);
    EXPECT_GT(stored, 300u) << "one segment for another, with room for the journal";
    const uint64_t blocks = disk_->store().stats().blocks;
    EXPECT_LE(segment_bytes(dir_.path() + "/store"), blocks * 20480 + (4 << 20)) << "no dead slabs";
    fs::remove(other());
    EXPECT_EQ(load(2001, 100), 100u);
    EXPECT_FALSE(disk_->store().stats().degraded);
    const uint64_t before = disk_->store().stats().blocks;
    disk_->reopen();
    EXPECT_EQ(disk_->store().stats().blocks, before);
}

// Whatever is freed is taken at once: giving more and more up would gain nothing.
TEST_F(SmallDevice, KeptFullByOthersLosesTwoSegmentsAtMost) {
    ASSERT_EQ(load(1, 800), 800u);
    fill();
    fewest_ = UINT64_MAX;
    const uint64_t stored = load(1001, 600, true);
    RecordProperty("stored", static_cast<int>(stored));
    EXPECT_GE(fewest_ + 2 * stored, 800 - 3 * kSlabsPerSegment);
    EXPECT_GE(fewest_, 300u);
    for (uint64_t i = 700; i <= 800; ++i) {
        if (holds(disk_->store(), test_key(i))) {
            EXPECT_TRUE(reads_back(disk_->store(), make_slab(i)));
        }
    }
    fs::remove(other());
    EXPECT_EQ(load(2001, 100), 100u);
    EXPECT_FALSE(disk_->store().stats().degraded);
}

}  // namespace
}  // namespace quire
