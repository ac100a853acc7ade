#include "base/progress.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
    ProgressOptions options(bool terminal, bool bytes = false) {
        return {terminal, bytes, 80, [this](std::string_view text) { shown_.emplace_back(text); }};
    }

    ManualClock clock_;
    std::vector<std::string> shown_;
};

TEST_F(ProgressTest, AwayFromATerminalALineEveryFewSeconds) {
    Progress progress("loading", 100, options(false), clock_);
    for (uint64_t done = 1; done <= 100; ++done) {
        clock_.advance(100 * kNsPerMs);
        progress.update(done);
    }
    progress.finish();
    progress.finish();
    EXPECT_THAT(shown_, ElementsAre("loading: 50% (50 of 100, 5.00 s left)\n",
                                    "loading: 100% (100 of 100 in 10.0 s)\n"));
}

TEST_F(ProgressTest, OnATerminalABarThatRedraws) {
    {
        Progress progress("model", 4 << 20, options(true, true), clock_);
        clock_.advance(kNsPerSecond);
        progress.update(1 << 20);
        progress.update(2 << 20);  // too soon to show
    }
    ASSERT_EQ(shown_.size(), 3u);
    EXPECT_THAT(shown_[0], StartsWith("\rmodel [#######.."));
    EXPECT_THAT(shown_[0], HasSubstr("25% 1.00 MiB of 4.00 MiB, 3.00 s left"));
    EXPECT_THAT(shown_[1], HasSubstr("50% 2.00 MiB"));
    EXPECT_EQ(shown_[2], "\n");
    for (size_t i = 0; i < 2; ++i) EXPECT_LE(shown_[i].size(), 80u + 4);
}

TEST_F(ProgressTest, NothingToDoAndTooMuchDoneAreFine) {
    Progress none("nothing", 0, options(false), clock_);
    none.update(5);
    none.finish();
    ASSERT_EQ(shown_.size(), 1u);
    EXPECT_THAT(shown_[0], StartsWith("nothing: 100%"));
    EXPECT_THAT(shown_[0], EndsWith("\n"));
}

}  // namespace
}  // namespace quire
