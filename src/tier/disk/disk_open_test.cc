// Directories that are not what they should be.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "format/segment.h"
#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;

void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

Result<std::unique_ptr<TierStore>> open_at(const std::string& dir, IoEngine& io) {
    DiskOptions options = DiskFixture::defaults();
    options.dir = dir;
    options.io = &io;
    return open_disk_store(options);
}

class DiskOpen : public ::testing::Test {
 protected:
    void SetUp() override {
        auto io = make_io_engine({});
        ASSERT_TRUE(io.ok());
        io_ = std::move(*io);
    }
    TempDir dir_;
    std::unique_ptr<IoEngine> io_;
};

TEST_F(DiskOpen, ForeignDirectoryIsNotTouched) {
    write_file(dir_.file("thesis.tex"), "years of work");
    auto store = open_at(dir_.path(), *io_);
    ASSERT_EQ(store.code(), Code::invalid);
    EXPECT_NE(store.error().message.find("thesis.tex"), std::string::npos);
    EXPECT_NE(store.error().message.find(dir_.path()), std::string::npos);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
    EXPECT_EQ(read_file(dir_.file("thesis.tex")), "years of work");
}

TEST_F(DiskOpen, OtherVersionsAreNamedAndKept) {
    for (const char* version : {"0", "7"}) {
        write_file(dir_.file("FORMAT"), "quire disk cache, format " + std::string(version) + "\n");
        write_file(dir_.file("segment-00000001.quire"), "of that version");
        auto store = open_at(dir_.path(), *io_);
        ASSERT_EQ(store.code(), Code::unsupported);
        const std::string& message = store.error().message;
        EXPECT_NE(message.find("format " + std::string(version)), std::string::npos) << message;
        EXPECT_NE(message.find("uses format 1"), std::string::npos) << message;
        EXPECT_NE(message.find("another directory"), std::string::npos) << message;
        EXPECT_EQ(read_file(dir_.file("segment-00000001.quire")), "of that version");
        std::filesystem::remove(dir_.file("LOCK"));
    }
}

// mkfs makes it, and it stays.
TEST_F(DiskOpen, TheRootOfAFreshFileSystemIsEmpty) {
    std::filesystem::create_directory(dir_.file("lost+found"));
    for (uint64_t life = 1; life <= 2; ++life) {
        auto store = open_at(dir_.path(), *io_);
        ASSERT_TRUE(store.ok()) << store.error().message;
        EXPECT_TRUE(put_one(**store, make_slab(life)).ok());
        EXPECT_EQ((*store)->stats().blocks, life);
    }
    EXPECT_TRUE(std::filesystem::is_directory(dir_.file("lost+found")));
}

TEST_F(DiskOpen, TellsWhoseSlabsItFound) {
    const auto slab_of = [](uint64_t number, uint64_t model, uint64_t layout) {
        AlignedBytes slab = make_slab(number);
        SlabHeader& header = slab_header(slab.span());
        header.model = {{model, model}};
        header.layout_digest = {layout, layout};
        seal_slab(slab.span());
        return slab;
    };
    // Three lives of one directory, each filling segments of its own.
    for (uint64_t life = 1; life <= 3; ++life) {
        auto store = open_at(dir_.path(), *io_);
        ASSERT_TRUE(store.ok()) << store.error().message;
        EXPECT_EQ((*store)->origins().size(), life - 1) << "found when opened, not later";
        for (uint64_t i = 0; i < 5; ++i)
            ASSERT_TRUE(put_one(**store, slab_of(10 * life + i, life, life == 3 ? 7 : 5)).ok());
    }
    auto store = open_at(dir_.path(), *io_);
    ASSERT_TRUE(store.ok());
    const std::vector<SlabOrigin> want = {{{{1, 1}}, {5, 5}, kCodecRaw16, 16},
                                          {{{2, 2}}, {5, 5}, kCodecRaw16, 16},
                                          {{{3, 3}}, {7, 7}, kCodecRaw16, 16}};
    EXPECT_EQ((*store)->origins(), want);
}

TEST_F(DiskOpen, DamagedFormatFile) {
    write_file(dir_.file("FORMAT"), "\x01\x02garbage");
    EXPECT_EQ(open_at(dir_.path(), *io_).code(), Code::invalid);
    write_file(dir_.file("FORMAT"), "");
    EXPECT_EQ(open_at(dir_.path(), *io_).code(), Code::invalid);
}

TEST_F(DiskOpen, AFirstOpeningThatDiedIsContinued) {
    write_file(dir_.file("LOCK"), "999999\n");
    write_file(dir_.file("FORMAT.tmp"), "quire di");
    auto store = open_at(dir_.path(), *io_);
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_TRUE(put_one(**store, make_slab(1)).ok());
}

TEST_F(DiskOpen, ImpossiblePathsAreErrorsThatNameThem) {
    write_file(dir_.file("file"), "x");
    for (const std::string& path :
         {dir_.file("file"), dir_.file("file/below"), std::string("/proc/quire-cannot-be")}) {
        auto store = open_at(path, *io_);
        ASSERT_FALSE(store.ok()) << path;
        EXPECT_NE(store.error().message.find(path), std::string::npos) << store.error().message;
    }
    EXPECT_EQ(open_at("", *io_).code(), Code::invalid);
    DiskOptions tiny;
    tiny.dir = dir_.file("tiny");
    tiny.capacity_bytes = 1 << 20;
    tiny.io = io_.get();
    EXPECT_EQ(open_disk_store(tiny).code(), Code::invalid);
}

TEST_F(DiskOpen, ACapacityBeyondTheDeviceIsRefused) {
    DiskOptions options;
    options.dir = dir_.path();
    options.capacity_bytes = 1ull << 60;
    options.io = io_.get();
    auto store = open_disk_store(options);
    ASSERT_EQ(store.code(), Code::invalid);
    EXPECT_NE(store.error().message.find(dir_.path()), std::string::npos);
    EXPECT_NE(store.error().message.find("smaller"), std::string::npos);
    options.dir = dir_.file("new/folder");
    ASSERT_EQ(open_disk_store(options).code(), Code::invalid);
    EXPECT_FALSE(std::filesystem::exists(dir_.file("new"))) << "nothing is left behind";
}

TEST_F(DiskOpen, MissingFoldersAreMade) {
    auto store = open_at(dir_.file("a/b/c"), *io_);
    ASSERT_TRUE(store.ok()) << store.error().message;
}

TEST_F(DiskOpen, ReadOnlyDirectoryServesAndRefusesPuts) {
    const std::string disk = dir_.file("disk");
    AlignedBytes slab = make_slab(1), other = make_slab(2);
    {
        auto store = open_at(disk, *io_);
        ASSERT_TRUE(store.ok());
        ASSERT_TRUE(put_one(**store, slab).ok());
    }
    if (::mount(disk.c_str(), disk.c_str(), nullptr, MS_BIND, nullptr) != 0) {
        GTEST_SKIP() << "mounting is not permitted here";
    }
    ASSERT_EQ(::mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
              0);
    {
        auto store = open_at(disk, *io_);
        EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().message);
        if (store.ok()) {
            EXPECT_TRUE(reads_back(**store, slab));
            EXPECT_EQ(put_one(**store, other).code(), Code::rejected);
            EXPECT_TRUE((*store)->stats().degraded);
            EXPECT_NE((*store)->stats().degraded_why.find("read-only"), std::string::npos);
            EXPECT_TRUE((*store)->flush(kTestTimeoutNs).ok());
        }
    }
    EXPECT_EQ(::umount(disk.c_str()), 0);
    auto store = open_at(disk, *io_);
    ASSERT_TRUE(store.ok());
    EXPECT_TRUE(put_one(**store, other).ok());
}

TEST_F(DiskOpen, ReadOnlyByOption) {
    AlignedBytes slab = make_slab(1), other = make_slab(2);
    {
        auto store = open_at(dir_.path(), *io_);
        ASSERT_TRUE(put_one(**store, slab).ok());
    }
    const uint64_t before = dir_.bytes();
    DiskOptions options = DiskFixture::defaults();
    options.dir = dir_.path();
    options.read_only = true;
    options.io = io_.get();
    {
        auto store = open_disk_store(options);
        ASSERT_TRUE(store.ok()) << store.error().message;
        EXPECT_TRUE(reads_back(**store, slab));
        EXPECT_EQ(put_one(**store, other).code(), Code::rejected);
        BlockKey key = test_key(1);
        (*store)->erase(std::span(&key, 1));
    }
    EXPECT_EQ(dir_.bytes(), before);
    auto again = open_disk_store(options);
    EXPECT_TRUE(reads_back(**again, slab)) << "nothing was changed on disk";
}

}  // namespace
}  // namespace quire
