// What only the disk store does: surviving restarts, two-phase publishing, its size limit, its
// lock.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;

std::vector<AlignedBytes> chain(uint64_t count) {
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= count; i++) slabs.push_back(make_slab(i, i - 1));
    return slabs;
}

void put_all(TierStore& store, const std::vector<AlignedBytes>& slabs) {
    std::vector<TierPut> puts;
    for (const auto& slab : slabs) puts.push_back(put_of(slab));
    for (const Status& status : put_wait(store, puts)) {
        ASSERT_TRUE(status.ok()) << status.error().message;
    }
}

TEST(DiskStore, ServesAfterCleanReopen) {
    DiskFixture disk;
    auto slabs = chain(50);
    put_all(disk.store(), slabs);
    disk.reopen();
    EXPECT_EQ(disk.store().stats().blocks, 50u);
    for (const auto& slab : slabs) EXPECT_TRUE(reads_back(disk.store(), slab));
    auto entries = disk.store().list();
    ASSERT_TRUE(entries.ok());
    std::set<BlockKey> parents;
    for (const TierEntry& entry : *entries) parents.insert(entry.parent_key);
    EXPECT_TRUE(parents.contains(test_key(1)));
    EXPECT_TRUE(parents.contains(BlockKey{}));
}

TEST(DiskStore, ErasedBlocksStayErased) {
    DiskFixture disk;
    auto slabs = chain(10);
    put_all(disk.store(), slabs);
    BlockKey gone = test_key(10);
    disk.store().erase(std::span(&gone, 1));
    disk.reopen();
    EXPECT_EQ(disk.store().stats().blocks, 9u);
    EXPECT_FALSE(holds(disk.store(), gone));
}

TEST(DiskStore, ManyReopensAddNothing) {
    DiskFixture disk;
    put_all(disk.store(), chain(5));
    for (int i = 0; i < 12; i++) disk.reopen();
    EXPECT_EQ(disk.store().stats().blocks, 5u);
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(disk.dir().path())) {
        files += entry.is_regular_file();
    }
    EXPECT_LE(files, 5u) << "LOCK, FORMAT, one segment, a checkpoint, a journal";
}

TEST(DiskStore, InvisibleUntilDataAndJournalAreWritten) {
    DiskFixture disk;
    AlignedBytes first = make_slab(1);
    ASSERT_TRUE(put_one(disk.store(), first).ok());
    for (const char* held : {"segment-", "journal-"}) {
        Fault hold;
        hold.kind = FaultKind::hold;
        hold.op = IoOp::write;
        hold.path_part = held;
        disk.io().add(hold);
        AlignedBytes slab = make_slab(held[0]);
        Pending pending;
        ASSERT_TRUE(disk.store().put({put_of(slab)}, pending.done()).ok());
        while (disk.io().held() == 0) std::this_thread::yield();
        EXPECT_FALSE(holds(disk.store(), test_key(held[0]))) << held;
        AlignedBytes into(slab.size());
        EXPECT_EQ(get_one(disk.store(), test_key(held[0]), into).code(), Code::miss) << held;
        EXPECT_FALSE(pending.ready());
        EXPECT_EQ(disk.store().flush(1'000'000).code(), Code::timeout);
        EXPECT_TRUE(reads_back(disk.store(), first)) << "reads go on beside a stuck write";
        disk.io().release_held();
        EXPECT_TRUE(pending.wait()[0].ok());
        EXPECT_TRUE(reads_back(disk.store(), slab));
        disk.io().clear();
    }
}

TEST(DiskStore, SlabsOfManySizesShareSegments) {
    DiskOptions options = DiskFixture::defaults();
    options.capacity_bytes = 64 << 20;
    DiskFixture disk(options);
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= 60; i++) {
        slabs.push_back(make_slab(i, i - 1, static_cast<uint32_t>(64 * (1 + i * 37 % 700)),
                                  static_cast<uint16_t>(1 + i % 9)));
    }
    put_all(disk.store(), slabs);
    for (const auto& slab : slabs) EXPECT_TRUE(reads_back(disk.store(), slab));
    disk.reopen();
    for (const auto& slab : slabs) EXPECT_TRUE(reads_back(disk.store(), slab));
}

TEST(DiskStore, ASlabLargerThanASegmentIsRefusedWithTheRemedy) {
    DiskFixture disk;  // 32 MiB: segments of 2 MiB
    AlignedBytes slab = make_slab(1, 0, 1 << 20, 2);
    Status status = put_one(disk.store(), slab);
    EXPECT_EQ(status.code(), Code::rejected);
    EXPECT_NE(status.error().message.find("more space"), std::string::npos);
    EXPECT_FALSE(disk.store().stats().degraded);
}

TEST(DiskStore, NeighboursAreReadTogether) {
    DiskFixture disk;
    auto slabs = chain(40);  // 20 KiB each
    put_all(disk.store(), slabs);
    uint64_t before = disk.io().stats().requests;
    std::vector<AlignedBytes> into;
    std::vector<TierGet> gets;
    for (const auto& slab : slabs) into.emplace_back(slab.size());
    for (size_t i = 0; i < slabs.size(); i++) gets.push_back({test_key(i + 1), into[i].span()});
    std::shuffle(gets.begin(), gets.end(), std::mt19937_64(3));
    for (const Status& status : get_wait(disk.store(), gets)) EXPECT_TRUE(status.ok());
    EXPECT_LE(disk.io().stats().requests - before, 2u);
    for (size_t i = 0; i < slabs.size(); i++) EXPECT_TRUE(same_bytes(slabs[i], into[i]));
}

// The sum of all file sizes never passes the limit, at any time that anybody can look.
TEST(DiskStore, SizeLimitIsNeverPassed) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        DiskOptions options = DiskFixture::defaults();
        options.capacity_bytes = seed == 1 ? 4 << 20 : 12 << 20;
        options.sync_interval_ns = -1;
        DiskFixture disk(options);
        std::atomic<bool> stop{false};
        std::atomic<uint64_t> most{0};
        std::thread watcher([&] {
            while (!stop) most = std::max(most.load(), disk.dir().bytes());
        });
        std::mt19937_64 random(seed);
        uint64_t wrong = 0;
        for (int step = 0; step < 200; step++) {
            std::vector<AlignedBytes> slabs;
            std::vector<TierPut> puts;
            for (uint64_t i = 0; i < 1 + random() % 6; i++) {
                uint64_t number = 1 + random() % 600;
                slabs.push_back(make_slab(number, number / 2, 64 * (1 + random() % 200), 2));
            }
            for (const auto& slab : slabs) puts.push_back(put_of(slab, 1 + random() % 4));
            put_wait(disk.store(), puts);
            BlockKey key = test_key(1 + random() % 600);
            if (random() % 3 == 0) disk.store().erase(std::span(&key, 1));
            if (random() % 40 == 0) disk.reopen();
            wrong += disk.store().stats().used_bytes > options.capacity_bytes;
        }
        stop = true;
        watcher.join();
        EXPECT_EQ(wrong, 0u);
        EXPECT_LE(most.load(), options.capacity_bytes);
        EXPECT_GT(most.load(), options.capacity_bytes / 2) << "most of the space is used";
        EXPECT_GT(disk.store().stats().blocks, 20u);
    }
}

TEST(DiskStore, ALowerLimitIsKeptAfterReopening) {
    DiskFixture disk;
    put_all(disk.store(), chain(600));
    EXPECT_GT(disk.dir().bytes(), 8u << 20);
    disk.options().capacity_bytes = 8 << 20;
    disk.reopen();
    ASSERT_TRUE(disk.store().flush(kTestTimeoutNs).ok());
    EXPECT_LE(disk.dir().bytes(), 8u << 20);
    EXPECT_GT(disk.store().stats().blocks, 100u);
    auto entries = disk.store().list();
    AlignedBytes into(make_slab(1).size());
    for (const TierEntry& entry : *entries) {
        EXPECT_TRUE(get_one(disk.store(), entry.key, into).ok());
    }
}

// After any amount of cleaning, a block whose parent was stored is never held without it.
TEST(DiskStore, ParentsOutliveTheirChildren) {
    DiskOptions options = DiskFixture::defaults();
    options.capacity_bytes = 6 << 20;
    DiskFixture disk(options);
    std::mt19937_64 random(5);
    for (uint64_t i = 1; i <= 1500; i += 10) {
        std::vector<AlignedBytes> slabs;
        for (uint64_t j = i; j < i + 10; j++) {
            // Conversations of 30 blocks over 8 shared roots.
            uint64_t parent = j <= 8 ? 0 : (j % 30 == 0 ? 1 + random() % 8 : j - 1);
            slabs.push_back(make_slab(j, parent));
        }
        put_all(disk.store(), slabs);
        AlignedBytes into(slabs[0].size());
        (void)get_one(disk.store(), test_key(1 + random() % 8), into);
        if (i % 250 == 1) disk.reopen();
    }
    auto entries = disk.store().list();
    ASSERT_TRUE(entries.ok());
    std::set<BlockKey> held;
    for (const TierEntry& entry : *entries) held.insert(entry.key);
    size_t orphans = 0;
    for (const TierEntry& entry : *entries) {
        orphans += !entry.parent_key.value.is_zero() && !held.contains(entry.parent_key);
    }
    // Only blocks put after their parent had gone may be without one.
    EXPECT_GT(held.size(), 50u);
    EXPECT_LT(orphans, held.size() / 4);
    EXPECT_EQ(disk.store().stats().corrupt_blocks, 0u);
}

TEST(DiskStore, WhatIsReadStaysLongerThanWhatIsNot) {
    DiskOptions options = DiskFixture::defaults();
    options.capacity_bytes = 8 << 20;
    DiskFixture disk(options);
    const AlignedBytes hot = make_slab(1);
    ASSERT_TRUE(put_one(disk.store(), hot).ok());
    AlignedBytes cold = make_slab(2);
    ASSERT_TRUE(put_one(disk.store(), cold).ok());
    for (uint64_t i = 10; i < 1500; i += 10) {
        std::vector<AlignedBytes> slabs;
        for (uint64_t j = i; j < i + 10; j++) slabs.push_back(make_slab(j));
        put_all(disk.store(), slabs);
        ASSERT_TRUE(reads_back(disk.store(), hot)) << i;
    }
    EXPECT_TRUE(reads_back(disk.store(), hot));
    EXPECT_FALSE(holds(disk.store(), test_key(2)));
}

TEST(DiskStore, SecondOpenerIsToldWhoHasIt) {
    DiskFixture disk;
    auto second = disk.try_open();
    ASSERT_EQ(second.code(), Code::busy);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
    EXPECT_NE(second.error().message.find(disk.dir().path()), std::string::npos);
    EXPECT_EQ(inspect_disk(disk.dir().path(), false).code(), Code::busy);
    EXPECT_EQ(rebuild_index(disk.dir().path()).code(), Code::busy);
    AlignedBytes slab = make_slab(1);
    EXPECT_TRUE(put_one(disk.store(), slab).ok()) << "the first one is not disturbed";
    disk.close();
    EXPECT_TRUE(disk.try_open().ok());
}

// The lock is the process's: it goes with it, however it goes.
TEST(DiskStore, TheLockOfADeadProcessIsGone) {
    TempDir dir;
    pid_t child = ::fork();
    if (child == 0) {
        std::string lock = dir.file("LOCK");
        int fd = ::open(lock.c_str(), O_RDWR | O_CREAT, 0644);
        if (fd < 0 || ::flock(fd, LOCK_EX) != 0) ::_Exit(2);
        ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    DiskOptions options = DiskFixture::defaults();
    options.dir = dir.path();
    DiskFixture disk(options);
    EXPECT_TRUE(put_one(disk.store(), make_slab(1)).ok());
}

}  // namespace
}  // namespace quire
