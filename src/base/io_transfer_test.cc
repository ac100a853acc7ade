#include "base/io_transfer.h"

#include <array>
#include <cerrno>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace quire {
namespace {

class IoTransferTest : public ::testing::Test {
 protected:
    // Result of a transfer that is over; fails the test when it is not.
    static Result<size_t> ended(const std::optional<Result<size_t>>& step) {
        EXPECT_TRUE(step.has_value());
        return step ? *step : make_error(Code::bug, "not over");
    }

    std::array<std::byte, 16384> buffer_{};
    IoTransfer read_{io_read(0, 8192, buffer_)};
    IoTransfer write_{io_write(0, 8192, buffer_)};
};

TEST_F(IoTransferTest, WholeTransferIsOverAtOnce) {
    EXPECT_EQ(*ended(read_.advance(16384)), 16384u);
    EXPECT_EQ(read_.continued(), 0u);
}

TEST_F(IoTransferTest, ShortTransferGoesOnWhereItStopped) {
    EXPECT_FALSE(write_.advance(5000).has_value());
    EXPECT_EQ(write_.offset(), 8192u + 5000);
    ASSERT_EQ(write_.parts().size(), 1u);
    EXPECT_EQ(write_.parts()[0].iov_base, buffer_.data() + 5000);
    EXPECT_EQ(write_.parts()[0].iov_len, 16384u - 5000);
    EXPECT_EQ(*ended(write_.advance(16384 - 5000)), 16384u);
}

TEST_F(IoTransferTest, InterruptionsAreRepeatedButNotForever) {
    EXPECT_FALSE(read_.advance(-EINTR).has_value());
    EXPECT_FALSE(read_.advance(-EAGAIN).has_value());
    int rounds = 0;
    std::optional<Result<size_t>> end;
    while (!end && ++rounds < 1'000'000) end = read_.advance(-EAGAIN);
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->code(), Code::io);
    EXPECT_EQ(end->error().detail, EAGAIN);
}

TEST_F(IoTransferTest, ReadWithNothingMoreIsTheEndOfTheFile) {
    EXPECT_FALSE(read_.advance(4096).has_value());
    EXPECT_EQ(*ended(read_.advance(0)), 4096u);
    EXPECT_EQ(*ended(IoTransfer(io_read(0, 0, buffer_)).advance(0)), 0u);
}

TEST_F(IoTransferTest, WriteWithNothingMoreIsAFullDevice) {
    EXPECT_FALSE(write_.advance(4096).has_value());
    EXPECT_EQ(ended(write_.advance(0)).code(), Code::full);
}

TEST_F(IoTransferTest, OddOffsetRefusedByDirectIoRestartsAtThePageBefore) {
    EXPECT_FALSE(read_.advance(5000).has_value());
    EXPECT_FALSE(read_.advance(-EINVAL).has_value());
    EXPECT_EQ(read_.offset(), 8192u + 4096);
    EXPECT_EQ(read_.parts()[0].iov_base, buffer_.data() + 4096);
    EXPECT_EQ(*ended(read_.advance(904)), 5000u);  // the same end again: end of the file
}

TEST_F(IoTransferTest, RefusalFromTheStartIsAnError) {
    const auto result = ended(read_.advance(-EINVAL));
    EXPECT_EQ(result.code(), Code::io);
    EXPECT_EQ(result.error().detail, EINVAL);
}

TEST_F(IoTransferTest, QuotaAndSpaceAreFull) {
    EXPECT_EQ(ended(write_.advance(-ENOSPC)).code(), Code::full);
    EXPECT_EQ(ended(IoTransfer(io_write(0, 0, buffer_)).advance(-EDQUOT)).code(), Code::full);
    EXPECT_EQ(ended(IoTransfer(io_write(0, 0, buffer_)).advance(-EIO)).code(), Code::io);
}

// A device that moves random amounts: every byte is moved once, in order, whatever the parts.
TEST_F(IoTransferTest, RandomShortTransfersMoveEveryByteOnce) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 rng(seed);
        std::array<std::byte, 1000> target{};
        std::vector<iovec> parts;
        for (size_t at = 0; at < target.size();) {
            const size_t size = std::min<size_t>(rng() % 200, target.size() - at);
            parts.push_back({target.data() + at, size});
            at += size;
        }
        IoTransfer transfer(io_readv(0, 0, parts));
        std::optional<Result<size_t>> end;
        while (!end) {
            size_t budget = 1 + rng() % 300, moved = 0;
            for (const iovec& part : transfer.parts()) {
                const size_t take = std::min(part.iov_len, budget - moved);
                for (size_t i = 0; i < take; ++i) {
                    std::byte& b = static_cast<std::byte*>(part.iov_base)[i];
                    b = static_cast<std::byte>(std::to_integer<int>(b) + 1);
                }
                moved += take;
            }
            end = transfer.advance(static_cast<int64_t>(moved));
        }
        ASSERT_TRUE(end->ok());
        EXPECT_EQ(**end, target.size());
        for (const std::byte b : target) ASSERT_EQ(b, std::byte{1});
    }
}

}  // namespace
}  // namespace quire
