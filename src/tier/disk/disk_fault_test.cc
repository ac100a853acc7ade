// Devices that fail: each failure is a miss or a refused put, counted and explained, and passes.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;

Fault failing(IoOp op, int error, const char* path_part, uint64_t times = kAlways) {
    Fault fault;
    fault.op = op;
    fault.error_number = error;
    fault.path_part = path_part;
    fault.times = times;
    return fault;
}

// ENOSPC and EIO on data and on the journal: puts fail with the right code, the store says why,
// waits, and then works again.
TEST(DiskFault, FailedWritesDegradeAndHeal) {
    struct Case {
        int error;
        const char* path;
        Code code;
    };
    for (const Case& c : {Case{ENOSPC, "segment-", Code::full}, Case{EIO, "segment-", Code::io},
                          Case{ENOSPC, "journal-", Code::full}, Case{EIO, "journal-", Code::io}}) {
        SCOPED_TRACE(std::string(c.path) + " " + std::to_string(c.error));
        DiskFixture disk;
        AlignedBytes before = make_slab(1), during = make_slab(2), after = make_slab(3);
        ASSERT_TRUE(put_one(disk.store(), before).ok());
        disk.io().add(failing(IoOp::write, c.error, c.path));
        EXPECT_EQ(put_one(disk.store(), during).code(), c.code);
        TierStats stats = disk.store().stats();
        EXPECT_TRUE(stats.degraded);
        EXPECT_FALSE(stats.degraded_why.empty());
        EXPECT_EQ(stats.puts_rejected, 1u);
        EXPECT_FALSE(holds(disk.store(), test_key(2)));
        EXPECT_TRUE(reads_back(disk.store(), before)) << "serving goes on";
        uint64_t requests = disk.io().hits();
        EXPECT_EQ(put_one(disk.store(), after).code(), Code::rejected);
        EXPECT_EQ(disk.io().hits(), requests) << "no write is tried before the back-off is over";
        disk.clock().advance(1'000'000'000);
        EXPECT_EQ(put_one(disk.store(), during).code(), c.code) << "tried again, still failing";
        disk.io().clear();
        disk.clock().advance(60'000'000'000);
        EXPECT_TRUE(put_one(disk.store(), after).ok());
        EXPECT_FALSE(disk.store().stats().degraded);
        EXPECT_TRUE(disk.store().stats().degraded_why.empty());
        disk.reopen();
        EXPECT_TRUE(reads_back(disk.store(), before));
        EXPECT_TRUE(reads_back(disk.store(), after));
        EXPECT_FALSE(holds(disk.store(), test_key(2)));
    }
}

TEST(DiskFault, OneFailedWriteDoesNotFailItsBatch) {
    DiskOptions options = DiskFixture::defaults();
    options.io_bytes = 4096;  // every slab a write of its own
    DiskFixture disk(options);
    AlignedBytes a = make_slab(1), b = make_slab(2), c = make_slab(3);
    ASSERT_TRUE(put_one(disk.store(), make_slab(9)).ok());
    Fault fault = failing(IoOp::write, EIO, "segment-", 1);
    fault.skip = 1;
    disk.io().add(fault);
    auto results = put_wait(disk.store(), {put_of(a), put_of(b), put_of(c)});
    EXPECT_TRUE(results[0].ok());
    EXPECT_EQ(results[1].code(), Code::io);
    EXPECT_TRUE(results[2].ok());
    EXPECT_TRUE(reads_back(disk.store(), a));
    EXPECT_TRUE(reads_back(disk.store(), c));
}

TEST(DiskFault, AFailedReadCostsOnlyItsBlock) {
    DiskFixture disk;
    std::vector<AlignedBytes> slabs, into;
    std::vector<TierPut> puts;
    std::vector<TierGet> gets;
    for (uint64_t i = 1; i <= 5; i++) slabs.push_back(make_slab(i));
    for (const auto& slab : slabs) puts.push_back(put_of(slab));
    put_wait(disk.store(), puts);
    for (const auto& slab : slabs) into.emplace_back(slab.size());
    for (size_t i = 0; i < 5; i++) gets.push_back({test_key(i + 1), into[i].span()});
    // Whatever touches the third slab's pages fails: first the group, then the slab alone.
    Fault fault = failing(IoOp::read, EIO, "segment-");
    const uint64_t bad = 4096 + 2 * slabs[0].size();
    fault.matches = [bad](const IoRequest& r) {
        return r.offset <= bad && bad < r.offset + io_bytes(r);
    };
    disk.io().add(fault);
    auto results = get_wait(disk.store(), gets);
    for (size_t i = 0; i < 5; i++) EXPECT_EQ(results[i].code(), i == 2 ? Code::io : Code::ok) << i;
    EXPECT_GE(disk.store().stats().io_errors, 1u);
    EXPECT_FALSE(holds(disk.store(), test_key(3))) << "a block that cannot be read is forgotten";
    disk.io().clear();
    EXPECT_TRUE(put_one(disk.store(), slabs[2]).ok()) << "and may be stored again";
    EXPECT_TRUE(reads_back(disk.store(), slabs[2]));
}

TEST(DiskFault, ShortAndFlippedReadsAreNeverServed) {
    for (FaultKind kind : {FaultKind::cut, FaultKind::bit_flip}) {
        for (uint64_t at : {0ull, 100ull, 4095ull, 4096ull, 9000ull, 20479ull}) {
            SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + " at " + std::to_string(at));
            DiskFixture disk;
            AlignedBytes slab = make_slab(1), into(slab.size());
            ASSERT_TRUE(put_one(disk.store(), slab).ok());
            Fault fault;
            fault.kind = kind;
            fault.op = IoOp::read;
            fault.bytes = at;
            fault.bit = at * 8 + 3;
            disk.io().add(fault);
            EXPECT_EQ(get_one(disk.store(), test_key(1), into).code(), Code::corrupt);
            EXPECT_EQ(disk.store().stats().corrupt_blocks, 1u);
            EXPECT_FALSE(holds(disk.store(), test_key(1)));
        }
    }
}

// A disk that said yes and stored something else: found at the read.
TEST(DiskFault, TornAndFlippedWritesAreNeverServed) {
    for (FaultKind kind : {FaultKind::torn, FaultKind::bit_flip}) {
        for (uint64_t at : {512ull, 4096ull, 12288ull}) {
            DiskFixture disk;
            AlignedBytes first = make_slab(1), slab = make_slab(2), into(slab.size());
            ASSERT_TRUE(put_one(disk.store(), first).ok());
            Fault fault;
            fault.kind = kind;
            fault.op = IoOp::write;
            fault.path_part = "segment-";
            fault.bytes = at;
            fault.bit = at * 8;
            disk.io().add(fault);
            ASSERT_TRUE(put_one(disk.store(), slab).ok());
            disk.reopen();
            EXPECT_EQ(get_one(disk.store(), test_key(2), into).code(), Code::corrupt) << at;
            EXPECT_TRUE(reads_back(disk.store(), first));
        }
    }
}

TEST(DiskFault, SyncFailuresReachFlush) {
    DiskFixture disk;
    ASSERT_TRUE(put_one(disk.store(), make_slab(1)).ok());
    disk.io().add(failing(IoOp::fdatasync, EIO, "segment-"));
    EXPECT_EQ(disk.store().flush(kTestTimeoutNs).code(), Code::io);
    disk.io().clear();
    EXPECT_TRUE(disk.store().flush(kTestTimeoutNs).ok());
}

TEST(DiskFault, AFailedCheckpointLosesNothing) {
    DiskFixture disk;
    AlignedBytes slab = make_slab(1);
    ASSERT_TRUE(put_one(disk.store(), slab).ok());
    disk.io().add(failing(IoOp::write, ENOSPC, "checkpoint-"));
    disk.close();
    disk.io().clear();
    disk.open();
    EXPECT_TRUE(reads_back(disk.store(), slab));
}

TEST(DiskFault, VanishedDirectory) {
    DiskFixture disk;
    AlignedBytes slab = make_slab(1), late = make_slab(2);
    ASSERT_TRUE(put_one(disk.store(), slab).ok());
    std::filesystem::remove_all(disk.dir().path());
    EXPECT_EQ(put_one(disk.store(), late).code(), Code::io);
    EXPECT_TRUE(disk.store().stats().degraded);
    EXPECT_FALSE(holds(disk.store(), test_key(2)));
    AlignedBytes into(slab.size());
    Status status = get_one(disk.store(), test_key(1), into);
    EXPECT_TRUE(status.ok() ? same_bytes(slab, into) : true);
    disk.clock().advance(60'000'000'000);
    EXPECT_EQ(put_one(disk.store(), late).code(), Code::io);
    EXPECT_NE(disk.store().stats().degraded_why.find(disk.dir().path()), std::string::npos);
}

TEST(DiskFault, VanishedSegment) {
    DiskFixture disk;
    AlignedBytes slab = make_slab(1), into(slab.size());
    ASSERT_TRUE(put_one(disk.store(), slab).ok());
    disk.reopen();
    for (const auto& entry : std::filesystem::directory_iterator(disk.dir().path())) {
        if (entry.path().filename().string().starts_with("segment-")) {
            std::filesystem::remove(entry.path());
        }
    }
    EXPECT_FALSE(get_one(disk.store(), test_key(1), into).ok());
    EXPECT_FALSE(holds(disk.store(), test_key(1)));
    EXPECT_TRUE(put_one(disk.store(), slab).ok());
    EXPECT_TRUE(reads_back(disk.store(), slab));
}

// A real full file system, smaller than the limit the store was given.
TEST(DiskFault, RealFullDisk) {
    TempDir dir;
    if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=6m") != 0) {
        GTEST_SKIP() << "mounting is not permitted here; ENOSPC is injected elsewhere";
    }
    {
        DiskOptions options = DiskFixture::defaults();
        options.dir = dir.path() + "/store";
        DiskFixture disk(options);
        size_t stored = 0;
        for (uint64_t i = 1; i <= 600; i++) {
            AlignedBytes slab = make_slab(i);
            Status status = put_one(disk.store(), slab);
            stored += status.ok();
            if (status.ok()) {
                ASSERT_TRUE(reads_back(disk.store(), slab));
            }
            disk.clock().advance(60'000'000'000);
        }
        EXPECT_GT(stored, 300u) << "old segments make room on a small device";
    }
    EXPECT_EQ(::umount(dir.path().c_str()), 0);
}

}  // namespace
}  // namespace quire
