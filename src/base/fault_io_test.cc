#include "base/fault_io.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

class FaultIoTest : public ::testing::Test {
 protected:
    Result<size_t> run(const IoRequest& request) { return run_io(io_, std::vector{request})[0]; }
    Result<size_t> write(uint64_t offset, std::span<const std::byte> from) {
        return run(io_write(file_.fd(), offset, from));
    }
    std::vector<std::byte> stored(size_t size) {
        std::vector<std::byte> bytes(size);
        const ssize_t got = ::pread(file_.fd(), bytes.data(), size, 0);
        bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
        return bytes;
    }

    ScratchFile file_;
    std::vector<std::byte> data_ = std::vector<std::byte>(1000, std::byte{0x5a});
    FaultIo io_{
        std::move(*make_io_engine({.kind = IoKind::threads, .queue_depth = 8, .threads = 1}))};
};

TEST_F(FaultIoTest, WithoutFaultsItIsTheEngine) {
    EXPECT_EQ(*write(0, data_), 1000u);
    std::vector<std::byte> back(1000);
    EXPECT_EQ(*run(io_read(file_.fd(), 0, back)), 1000u);
    EXPECT_EQ(back, data_);
    EXPECT_EQ(io_.hits(), 0u);
}

TEST_F(FaultIoTest, TheNthMatchingOperationFails) {
    io_.add({.error_number = ENOSPC, .op = IoOp::write, .skip = 1, .times = 2});
    EXPECT_TRUE(write(0, data_).ok());
    EXPECT_TRUE(run(io_fdatasync(file_.fd())).ok());
    EXPECT_EQ(write(1000, data_).code(), Code::full);
    EXPECT_EQ(write(1000, data_).code(), Code::full);
    EXPECT_TRUE(write(1000, data_).ok());
    EXPECT_EQ(io_.hits(), 2u);
}

TEST_F(FaultIoTest, FailedWritesStoreNothing) {
    io_.add({.error_number = EIO});
    const auto result = write(0, data_);
    EXPECT_EQ(result.code(), Code::io);
    EXPECT_EQ(result.error().detail, EIO);
    EXPECT_TRUE(stored(1000).empty());
}

TEST_F(FaultIoTest, CutReadsEndEarlyAndCutWritesFailPartway) {
    io_.add({.kind = FaultKind::cut, .error_number = ENOSPC, .bytes = 300, .op = IoOp::write});
    EXPECT_EQ(write(0, data_).code(), Code::full);
    EXPECT_EQ(stored(1000).size(), 300u);
    ASSERT_TRUE(write(0, data_).ok());
    io_.add({.kind = FaultKind::cut, .bytes = 10, .op = IoOp::read});
    std::vector<std::byte> back(1000);
    EXPECT_EQ(*run(io_read(file_.fd(), 0, back)), 10u);
}

TEST_F(FaultIoTest, TornWritesReportSuccess) {
    io_.add({.kind = FaultKind::torn, .bytes = 512});
    EXPECT_EQ(*write(0, data_), 1000u);
    EXPECT_EQ(stored(1000).size(), 512u);
    io_.add({.kind = FaultKind::torn, .bytes = 0});
    EXPECT_EQ(*write(512, data_), 1000u);
    EXPECT_EQ(stored(1000).size(), 512u);
}

TEST_F(FaultIoTest, BitFlipsOnReadAndOnWrite) {
    io_.add({.kind = FaultKind::bit_flip, .bit = 8 * 17 + 3, .op = IoOp::write});
    EXPECT_EQ(*write(0, data_), 1000u);
    auto expected = data_;
    expected[17] ^= std::byte{8};
    EXPECT_EQ(stored(1000), expected);
    EXPECT_EQ(data_[17], std::byte{0x5a});  // the caller's buffer is not touched

    io_.add({.kind = FaultKind::bit_flip, .bit = 8 * 17 + 3, .op = IoOp::read});
    std::vector<std::byte> head(10), tail(990);
    const std::vector<iovec> into = {{head.data(), head.size()}, {tail.data(), tail.size()}};
    EXPECT_EQ(*run(io_readv(file_.fd(), 0, into)), 1000u);
    EXPECT_EQ(tail[7], std::byte{0x5a});  // flipped back
}

TEST_F(FaultIoTest, ConditionsSelectByDescriptorPathAndPredicate) {
    const ScratchFile other;
    io_.add({.fd = other.fd(), .times = kAlways});
    EXPECT_TRUE(write(0, data_).ok());
    EXPECT_FALSE(run(io_write(other.fd(), 0, data_)).ok());
    io_.clear();
    io_.add({.path_part = file_.path(), .times = kAlways});
    EXPECT_FALSE(write(0, data_).ok());
    EXPECT_TRUE(run(io_write(other.fd(), 0, data_)).ok());
    io_.clear();
    io_.add({.matches = [](const IoRequest& r) { return r.offset >= 4096; }, .times = kAlways});
    EXPECT_TRUE(write(0, data_).ok());
    EXPECT_FALSE(write(4096, data_).ok());
}

TEST_F(FaultIoTest, HeldRequestsWaitForTheirRelease) {
    io_.add({.kind = FaultKind::hold, .times = 2});
    std::atomic<int> completed{0};
    const auto count = [&](uint64_t, const Result<size_t>&) { ++completed; };
    const std::vector requests = {io_write(file_.fd(), 0, data_),
                                  io_write(file_.fd(), 1000, data_)};
    ASSERT_TRUE(io_.submit(requests, count).ok());
    ASSERT_TRUE(run(io_fdatasync(file_.fd())).ok());
    EXPECT_EQ(completed, 0);
    EXPECT_EQ(io_.held(), 2u);
    EXPECT_GE(io_.stats().pending, 2u);
    EXPECT_EQ(io_.release_held(1), 1u);
    ASSERT_TRUE(run(io_fdatasync(file_.fd())).ok());  // one worker: ordered behind the write
    EXPECT_EQ(completed, 1);
    EXPECT_EQ(io_.release_held(), 1u);
    ASSERT_TRUE(run(io_fdatasync(file_.fd())).ok());
    EXPECT_EQ(completed, 2);
}

TEST_F(FaultIoTest, HeldRequestsCountAgainstTheBound) {
    io_.add({.kind = FaultKind::hold, .times = kAlways});
    const std::vector<IoRequest> eight(8);
    ASSERT_TRUE(io_.submit(eight, {}).ok());
    EXPECT_EQ(io_.submit(std::vector<IoRequest>(1), {}).code(), Code::busy);
    EXPECT_EQ(io_.submit(std::vector<IoRequest>(9), {}).code(), Code::invalid);
}

}  // namespace
}  // namespace quire
