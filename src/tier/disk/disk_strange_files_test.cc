// Files that are not what their names say, and a lock that somebody deletes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "format/segment.h"
#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;
namespace fs = std::filesystem;

constexpr uint64_t kStoredFirst = 20;

enum class StrangeKind : uint8_t { pipe, link_loop, folder, device };
constexpr StrangeKind kStrangeKinds[] = {StrangeKind::pipe, StrangeKind::link_loop,
                                         StrangeKind::folder, StrangeKind::device};

// False where it cannot be made here.
bool put_in_place(const fs::path& path, StrangeKind kind) {
    fs::remove_all(path);
    switch (kind) {
        case StrangeKind::pipe:
            return ::mkfifo(path.c_str(), 0600) == 0;
        case StrangeKind::link_loop:
            return ::symlink(path.filename().c_str(), path.c_str()) == 0;
        case StrangeKind::folder:
            return fs::create_directory(path);
        case StrangeKind::device:
            return ::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
    }
    return false;
}

fs::path newest(const std::string& dir, const std::string& start) {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(dir)) {
        if (entry.path().filename().string().starts_with(start))
            found = std::max(found, entry.path());
    }
    return found;
}

void store_some(DiskFixture& disk) {
    for (uint64_t i = 1; i <= kStoredFirst; ++i)
        ASSERT_TRUE(put_one(disk.store(), make_slab(i)).ok());
}

TEST(DiskStrangeFiles, FormatAndLockAreRefusedWithARemedy) {
    for (const char* name : {"FORMAT", "LOCK"}) {
        for (StrangeKind kind : kStrangeKinds) {
            DiskFixture disk;
            store_some(disk);
            disk.close();
            if (!put_in_place(disk.dir().file(name), kind)) continue;
            const auto store = disk.try_open();
            const auto report = inspect_disk(disk.dir().path(), true);
            ASSERT_EQ(store.code(), Code::invalid) << name;
            ASSERT_EQ(report.code(), Code::invalid) << name;
            for (const Error& error : {store.error(), report.error()}) {
                EXPECT_NE(error.message.find(disk.dir().file(name)), std::string::npos);
                EXPECT_NE(error.message.find("not a regular file"), std::string::npos);
                EXPECT_NE(error.message.find("delete"), std::string::npos) << error.message;
            }
        }
    }
}

TEST(DiskStrangeFiles, AnIndexFileIsFoundAgainInTheSlabs) {
    for (const char* start : {"journal-", "checkpoint-"}) {
        for (StrangeKind kind : kStrangeKinds) {
            SCOPED_TRACE(std::string(start) + " " + std::to_string(static_cast<int>(kind)));
            DiskFixture disk;
            store_some(disk);
            disk.reopen();
            ASSERT_TRUE(put_one(disk.store(), make_slab(kStoredFirst + 1)).ok());
            disk.close();
            const fs::path file = newest(disk.dir().path(), start);
            if (!put_in_place(file, kind)) continue;
            const auto report = inspect_disk(disk.dir().path(), true);
            ASSERT_TRUE(report.ok()) << report.error().message;
            EXPECT_TRUE(std::ranges::any_of(report->damage, [&](const DiskDamage& damage) {
                return damage.what.find(file.filename()) != std::string::npos &&
                       damage.what.find("delete it") != std::string::npos;
            }));
            for (int life = 0; life < 2; ++life) {
                disk.open();
                EXPECT_EQ(disk.store().stats().blocks, kStoredFirst + 1);
                EXPECT_FALSE(disk.store().stats().degraded);
                disk.close();
            }
        }
    }
}

TEST(DiskStrangeFiles, ASegmentCostsItsOwnBlocks) {
    for (StrangeKind kind : kStrangeKinds) {
        DiskFixture disk;
        store_some(disk);
        disk.reopen();
        ASSERT_TRUE(put_one(disk.store(), make_slab(kStoredFirst + 1)).ok());
        disk.close();
        if (!put_in_place(newest(disk.dir().path(), "segment-"), kind)) continue;
        ASSERT_TRUE(inspect_disk(disk.dir().path(), true).ok());
        disk.open();
        EXPECT_EQ(disk.store().stats().blocks, kStoredFirst);
        ASSERT_TRUE(put_one(disk.store(), make_slab(kStoredFirst + 1)).ok());
        // While it is served: found at the read.
        disk.reopen();
        const fs::path first = disk.dir().file(segment_file_name(1));
        ASSERT_TRUE(put_in_place(first, kind));
        AlignedBytes into(make_slab(1).size());
        EXPECT_FALSE(get_one(disk.store(), test_key(1), into).ok());
        EXPECT_TRUE(reads_back(disk.store(), make_slab(kStoredFirst + 1)));
    }
}

// Tebibytes of hole: page by page they would take hours.
TEST(DiskStrangeFiles, AnOversizedSegmentIsScannedByItsData) {
    constexpr uint64_t kHugeSegment = uint64_t{8} << 40;
    for (bool header_lost : {false, true}) {
        DiskFixture disk;
        store_some(disk);
        disk.close();
        for (const char* start : {"journal-", "checkpoint-"}) {
            for (fs::path file = newest(disk.dir().path(), start); !file.empty();
                 file = newest(disk.dir().path(), start))
                fs::remove(file);
        }
        const fs::path segment = newest(disk.dir().path(), "segment-");
        if (header_lost)
            std::fstream(segment, std::ios::in | std::ios::out | std::ios::binary).put('x');
        std::error_code error;
        fs::resize_file(segment, kHugeSegment, error);
        if (error) GTEST_SKIP() << "no files of that size here: " << error.message();
        const auto report = inspect_disk(disk.dir().path(), true);
        ASSERT_TRUE(report.ok());
        EXPECT_EQ(report->blocks, kStoredFirst);
        disk.open();
        EXPECT_EQ(disk.store().stats().blocks, kStoredFirst);
        EXPECT_LT(fs::file_size(segment), 1u << 20) << "cut to its last slab";
        ASSERT_TRUE(put_one(disk.store(), make_slab(kStoredFirst + 1)).ok());
        EXPECT_FALSE(disk.store().stats().degraded);
    }
}

TEST(DiskStrangeFiles, DeletingTheLockLetsNobodyIn) {
    DiskFixture disk;
    store_some(disk);
    fs::remove(disk.dir().file("LOCK"));
    EXPECT_EQ(disk.try_open().code(), Code::busy);
    EXPECT_EQ(inspect_disk(disk.dir().path(), false).code(), Code::busy);
    EXPECT_FALSE(fs::exists(disk.dir().file("LOCK"))) << "made by nobody who is refused";
    std::ofstream(disk.dir().file("LOCK")) << "1\n";
    EXPECT_EQ(disk.try_open().code(), Code::busy);
    ASSERT_TRUE(put_one(disk.store(), make_slab(kStoredFirst + 1)).ok());
    disk.reopen();
    EXPECT_EQ(disk.store().stats().blocks, kStoredFirst + 1) << "what was acknowledged is there";
}

}  // namespace
}  // namespace quire
