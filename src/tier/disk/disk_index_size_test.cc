// Index files that take more space than what they say: blocks never pay for that.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "tier/testing/disk_fixture.h"

namespace quire {
namespace {

using namespace quire::testing;
namespace fs = std::filesystem;

constexpr uint64_t kStored = 60;
constexpr uint64_t kTailMiB = 1 << 20;
constexpr uint64_t kHugeTail = uint64_t{1} << 40;  // a hole: takes nothing

std::vector<fs::path> index_files(const std::string& dir, const std::string& kind) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(dir)) {
        if (entry.path().filename().string().starts_with(kind)) found.push_back(entry.path());
    }
    return found;
}

// Stores, stops, lets `harm` loose on the newest file of `kind`, and starts twice.
void survives(const std::string& kind, const std::function<void(const fs::path&)>& harm) {
    DiskFixture disk;
    for (uint64_t i = 1; i <= kStored; ++i) {
        ASSERT_TRUE(put_one(disk.store(), make_slab(i, 0, 60'000)).ok());
        if (i == kStored / 2) disk.reopen();  // half in the checkpoint
    }
    disk.close();
    const auto files = index_files(disk.dir().path(), kind);
    ASSERT_FALSE(files.empty());
    harm(*std::ranges::max_element(files));
    for (uint64_t life = 1; life <= 2; ++life) {
        disk.open();
        EXPECT_EQ(disk.store().stats().blocks, kStored + life - 1);
        ASSERT_TRUE(put_one(disk.store(), make_slab(1000 + life, 0, 60'000)).ok());
        EXPECT_FALSE(disk.store().stats().degraded) << disk.store().stats().degraded_why;
        EXPECT_EQ(disk.store().stats().evicted_blocks, 0u);
        EXPECT_LE(disk.dir().bytes(), disk.options().capacity_bytes);
        for (const fs::path& file : index_files(disk.dir().path(), kind))
            EXPECT_LT(fs::file_size(file), kTailMiB) << file;
        for (uint64_t i = 1; i <= kStored; ++i)
            EXPECT_TRUE(reads_back(disk.store(), make_slab(i, 0, 60'000))) << i;
        disk.close();
    }
}

void overwrite_first_byte(const fs::path& file) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).put('x');
}

TEST(DiskIndexSize, ALongTailIsCutAndCostsNothing) {
    for (const char* kind : {"journal-", "checkpoint-"}) {
        for (uint64_t tail : {uint64_t{4096}, 20 * kTailMiB, 300 * kTailMiB, kHugeTail}) {
            SCOPED_TRACE(std::string(kind) + " " + std::to_string(tail));
            survives(kind, [&](const fs::path& file) {
                fs::resize_file(file, fs::file_size(file) + tail);
            });
        }
    }
}

TEST(DiskIndexSize, AnUnusableFileIsReplaced) {
    for (const char* kind : {"journal-", "checkpoint-"}) {
        for (uint64_t bytes : {uint64_t{4096}, 20 * kTailMiB, 300 * kTailMiB, kHugeTail}) {
            SCOPED_TRACE(std::string(kind) + " " + std::to_string(bytes));
            survives(kind, [&](const fs::path& file) {
                overwrite_first_byte(file);
                fs::resize_file(file, bytes);
            });
            survives(kind, [&](const fs::path& file) {
                std::ofstream(file, std::ios::trunc).close();
                fs::resize_file(file, bytes);
            });
        }
    }
}

TEST(DiskIndexSize, ALeftOverFileIsDeleted) {
    survives("checkpoint-", [](const fs::path& file) {
        const fs::path old = file.parent_path() / "checkpoint-0000000000000000.quire";
        std::ofstream(old).close();
        fs::resize_file(old, 300 * kTailMiB);
    });
}

}  // namespace
}  // namespace quire
