// quire codec transcode where it does not go well: what is left behind, and what a second run does.
#include "apps/quire/commands/transcode.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/quire/commands/staged_folder.h"
#include "base/fault_io.h"
#include "tier/disk/disk.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/temp_dir.h"
#include "tier/testing/test_slab.h"

namespace quire::commands {
namespace {

namespace fs = std::filesystem;
using namespace quire::testing;
using ::testing::HasSubstr;

constexpr uint64_t kSlabs = 400;

std::unique_ptr<FaultIo> make_io() {
    return std::make_unique<FaultIo>(std::move(make_io_engine({})).value());
}

class TranscodeTest : public ::testing::TestWithParam<const char*> {
 protected:
    void SetUp() override {
        const auto io = make_io();
        DiskOptions options{.dir = flags().from_dir, .capacity_bytes = 64 << 20};
        options.allow_oversize = true;
        options.io = io.get();
        const auto store = open_disk_store(options);
        ASSERT_TRUE(store.ok());
        for (uint64_t i = 1; i <= kSlabs; ++i) ASSERT_TRUE(put_one(**store, make_slab(i)).ok());
    }

    TranscodeFlags flags() const {
        TranscodeFlags flags;
        flags.from_dir = dir_.file("from");
        flags.to_dir = dir_.file("to");
        flags.to = GetParam();
        return flags;
    }
    std::string staged() const { return flags().to_dir + kStagedSuffix; }
    // Of segments in the new folder, after the first ones.
    Fault writes(uint64_t skip) const {
        Fault fault;
        fault.op = IoOp::write;
        fault.path_part = std::string(kStagedSuffix) + "/segment-";
        fault.skip = skip;
        fault.times = kAlways;
        return fault;
    }
    void expect_whole() const {
        const auto report = transcode(flags());
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_EQ(report->written, kSlabs);
        EXPECT_EQ(report->refused, 0u);
        const auto seen = inspect_disk(flags().to_dir, true);
        ASSERT_TRUE(seen.ok());
        EXPECT_EQ(seen->blocks, kSlabs);
        EXPECT_EQ(seen->damaged_blocks, 0u);
        EXPECT_FALSE(fs::exists(staged()));
    }
    void expect_nothing() const {
        EXPECT_FALSE(fs::exists(flags().to_dir));
        EXPECT_FALSE(fs::exists(staged()));
    }

    TempDir dir_;
};

TEST_P(TranscodeTest, AFullDiskMidwayLeavesNothing) {
    for (const auto& [error, code] : {std::pair(ENOSPC, Code::full), std::pair(EIO, Code::io)}) {
        const auto io = make_io();
        Fault fault = writes(2);
        fault.error_number = error;
        io->add(fault);
        const auto report = transcode(flags(), io.get());
        EXPECT_GT(io->hits(), 0u);
        ASSERT_FALSE(report.ok());
        EXPECT_EQ(report.code(), code) << report.error().message;
        expect_nothing();
    }
    expect_whole();
}

TEST_P(TranscodeTest, WhatCannotBeReadIsLeftBehindAndTheRestIsWhole) {
    for (const auto& entry : fs::directory_iterator(flags().from_dir)) {
        if (!entry.path().filename().string().starts_with("segment-")) continue;
        std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(entry.file_size() / 2)).put('!');
        break;
    }
    const auto report = transcode(flags());
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->refused, 1u);
    EXPECT_EQ(report->written, kSlabs - 1);
    EXPECT_EQ(inspect_disk(flags().to_dir, true)->blocks, kSlabs - 1);
    EXPECT_FALSE(fs::exists(staged()));
}

TEST_P(TranscodeTest, AfterAKillMidwayTheSecondRunBeginsAnew) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto io = make_io();
        Fault fault = writes(0);
        uint64_t seen = 0;
        fault.matches = [&seen](const IoRequest&) {
            if (++seen == 3) ::kill(::getpid(), SIGKILL);
            return false;
        };
        io->add(fault);
        const bool done = transcode(flags(), io.get()).ok();
        ::_exit(done ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_FALSE(fs::exists(flags().to_dir)) << "half a copy is no copy";
    EXPECT_TRUE(fs::exists(staged()));
    expect_whole();
}

TEST_P(TranscodeTest, TwoRunsDoNotFillOneFolder) {
    const auto io = make_io();
    DiskOptions options{.dir = staged(), .capacity_bytes = 64 << 20};
    options.allow_oversize = true;
    options.io = io.get();
    const auto other = open_disk_store(options);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(transcode(flags()).code(), Code::busy);
    EXPECT_TRUE(fs::exists(staged()));
}

TEST_P(TranscodeTest, OnlyWhatATranscodeLeftIsDeleted) {
    fs::create_directory(staged());
    std::ofstream(staged() + "/mine") << "kept";
    EXPECT_EQ(transcode(flags()).code(), Code::invalid);
    EXPECT_TRUE(fs::exists(staged() + "/mine"));
    fs::remove(staged() + "/mine");
    expect_whole();

    fs::rename(flags().from_dir, staged());
    TranscodeFlags itself = flags();
    itself.from_dir = staged();
    fs::remove_all(flags().to_dir);
    EXPECT_EQ(transcode(itself).code(), Code::invalid);
    EXPECT_EQ(inspect_disk(staged(), true)->blocks, kSlabs);
}

TEST_P(TranscodeTest, OnlyANewOrAnEmptyFolderIsFilled) {
    fs::create_directory(flags().to_dir);
    std::ofstream(flags().to_dir + "/mine") << "kept";
    const auto refused = transcode(flags());
    ASSERT_EQ(refused.code(), Code::invalid);
    EXPECT_THAT(refused.error().message, HasSubstr("is not empty; name a new folder"));
    EXPECT_TRUE(fs::exists(flags().to_dir + "/mine"));
    fs::remove(flags().to_dir + "/mine");
    expect_whole();
    EXPECT_EQ(transcode(flags()).code(), Code::invalid) << "and then it is not empty";
}

INSTANTIATE_TEST_SUITE_P(Packings, TranscodeTest, ::testing::Values("none", "zstd"));

}  // namespace
}  // namespace quire::commands
