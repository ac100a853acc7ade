#include "base/log.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::log {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class LogTest : public ::testing::Test {
 protected:
    void start(Level level, bool json) {
        configure({level, json, [this](std::string_view line) { lines_.emplace_back(line); }});
    }
    ~LogTest() override { configure({}); }

    std::vector<std::string> lines_;
};

TEST_F(LogTest, TextLinesCarryTimeLevelEventAndMessage) {
    start(Level::info, false);
    info("server_started", "listening on {}:{}", "127.0.0.1", 8000);
    ASSERT_EQ(lines_.size(), 1u);
    EXPECT_THAT(lines_[0], MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9:]+\\.[0-9]+ info "
                                        "server_started: listening on 127.0.0.1:8000"));
}

TEST_F(LogTest, JsonLinesEscapeWhatTheyMust) {
    start(Level::info, true);
    warn("odd_name", "file \"a\\b\"\nnext{}", '\x01');
    ASSERT_EQ(lines_.size(), 1u);
    EXPECT_THAT(lines_[0],
                HasSubstr(R"("event":"odd_name","message":"file \"a\\b\"\nnext\u0001"})"));
    EXPECT_THAT(lines_[0], MatchesRegex("\\{\"time\":\"[0-9T:.+-]+\",\"level\":\"warning\",.*"));
}

TEST_F(LogTest, AMessageCannotForgeALine) {
    start(Level::info, false);
    info("request", "{}", "x\n2026-01-01T00:00:00 error forged: y\r\x1b[31m");
    ASSERT_EQ(lines_.size(), 1u);
    EXPECT_THAT(lines_[0], Not(HasSubstr("\n")));
    EXPECT_THAT(lines_[0], Not(HasSubstr("\x1b")));
}

TEST_F(LogTest, LevelsBelowTheConfiguredOneAreSilent) {
    start(Level::warn, false);
    debug("a", "1");
    info("b", "2");
    warn("c", "3");
    error("d", "4");
    EXPECT_EQ(lines_.size(), 2u);
    start(Level::off, false);
    error("d", "4");
    EXPECT_EQ(lines_.size(), 2u);
    EXPECT_FALSE(enabled(Level::error));
}

TEST_F(LogTest, LinesAreCountedByLevelWhenTheyAreWritten) {
    start(Level::warn, true);
    const uint64_t before[] = {lines_written(Level::info), lines_written(Level::warn),
                               lines_written(Level::error)};
    info("b", "2");
    write(Level::info, "b", "2");
    warn("c", "3");
    warn("c", "3");
    error("d", "4");
    EXPECT_EQ(lines_written(Level::info), before[0]);
    EXPECT_EQ(lines_written(Level::warn), before[1] + 2);
    EXPECT_EQ(lines_written(Level::error), before[2] + 1);
    EXPECT_EQ(lines_.size(), 3u);
}

TEST_F(LogTest, LevelNamesParse) {
    EXPECT_EQ(*parse_level("debug"), Level::debug);
    EXPECT_EQ(*parse_level("off"), Level::off);
    EXPECT_THAT(parse_level("loud").error().message, HasSubstr("'loud'"));
}

TEST_F(LogTest, LimiterSaysOncePerIntervalAndCountsTheRest) {
    start(Level::info, false);
    ManualClock clock;
    Limiter limiter(clock, 1000);
    for (int i = 0; i < 5; ++i) limiter.warn("disk_full", "attempt {}", i);
    EXPECT_EQ(lines_.size(), 1u);
    limiter.error("disk_error", "another kind");
    EXPECT_EQ(lines_.size(), 2u);
    clock.advance(1000);
    limiter.warn("disk_full", "attempt {}", 5);
    ASSERT_EQ(lines_.size(), 3u);
    EXPECT_THAT(lines_[2], EndsWith("attempt 5 (4 more like this were not logged)"));
    clock.advance(1000);
    limiter.warn("disk_full", "attempt {}", 6);
    EXPECT_THAT(lines_[3], EndsWith("attempt 6"));
}

TEST_F(LogTest, ThreadsWriteWholeLines) {
    start(Level::info, false);  // capture runs under the sink's lock
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([] {
            for (int i = 0; i < 100; ++i) info("tick", "thread line");
        });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(lines_.size(), 400u);
    for (const std::string& line : lines_) ASSERT_THAT(line, EndsWith("tick: thread line"));
}

}  // namespace
}  // namespace quire::log
