#include "base/log_sink.h"

#include <csignal>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace quire::log {
namespace {

using ::testing::HasSubstr;

// A pipe as the log, which the test reads or not.
class LogSinkTest : public ::testing::TestWithParam<bool> {
 protected:
    LogSinkTest() {
        EXPECT_EQ(::pipe2(fds_, O_CLOEXEC), 0);
        logger_ = std::make_shared<spdlog::logger>(
            "t", std::make_shared<DescriptorSink>(fds_[1], GetParam(), dropped_));
        logger_->set_pattern(GetParam() ? R"({"level":"%l",%v})" : "%l %v");
    }
    ~LogSinkTest() override {
        stop_reading();
        ::close(fds_[1]);
    }
    void stop_reading() {
        if (fds_[0] >= 0) ::close(fds_[0]);
        fds_[0] = -1;
    }
    void say(const std::string& text) {
        logger_->info(GetParam() ? R"("message":")" + text + '"' : text);
    }
    // What is in the pipe, and no more.
    std::string read_now() const {
        ::fcntl(fds_[0], F_SETFL, O_NONBLOCK);
        std::string all;
        char some[65536];
        for (ssize_t n = 0; (n = ::read(fds_[0], some, sizeof some)) > 0;)
            all.append(some, static_cast<size_t>(n));
        return all;
    }
    static std::vector<std::string> lines_of(const std::string& text) {
        std::vector<std::string> lines;
        for (size_t from = 0; from < text.size();) {
            const size_t to = text.find('\n', from);
            lines.push_back(text.substr(from, to - from));
            from = to == std::string::npos ? text.size() : to + 1;
        }
        return lines;
    }

    int fds_[2] = {-1, -1};
    std::atomic<uint64_t> dropped_{0};
    std::shared_ptr<spdlog::logger> logger_;
};

TEST_P(LogSinkTest, WritesWholeLines) {
    say("one");
    say(std::string(10'000, 'x'));  // more than one write
    const auto lines = lines_of(read_now());
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[0], HasSubstr("one"));
    EXPECT_GE(lines[1].size(), 10'000u);
    EXPECT_EQ(dropped_, 0u);
}

TEST_P(LogSinkTest, DropsAndCountsWhatNobodyReadsAndSaysSoOnce) {
    constexpr uint64_t kLines = 5000;  // far more than a pipe holds
    for (uint64_t i = 0; i < kLines; ++i) say("line " + std::string(i % 300, '.'));
    const uint64_t dropped = dropped_;
    EXPECT_GT(dropped, 1000u);
    const auto before = lines_of(read_now());
    say("heard again");
    say("and on");
    auto after = lines_of(read_now());
    // The last line before the stall may have been cut by it: its end comes first.
    const size_t whole = before.size() + after.size() - (after.size() == 4 ? 1 : 0);
    EXPECT_EQ(whole, kLines - dropped + 3);
    ASSERT_GE(after.size(), 3u);
    EXPECT_THAT(after[after.size() - 3], HasSubstr("log_dropped"));
    EXPECT_THAT(after[after.size() - 3], HasSubstr(std::to_string(dropped) + " log lines"));
    EXPECT_THAT(after[after.size() - 2], HasSubstr("heard again"));
    EXPECT_THAT(after[after.size() - 1], HasSubstr("and on"));
    EXPECT_EQ(dropped_, dropped);
}

TEST_P(LogSinkTest, AReaderThatIsGoneCostsOnlyTheLines) {
    const auto previous = std::signal(SIGPIPE, SIG_IGN);
    say("heard");
    stop_reading();
    say("lost");
    say("lost");
    EXPECT_EQ(dropped_, 2u);
    std::signal(SIGPIPE, previous);
}

INSTANTIATE_TEST_SUITE_P(TextAndJson, LogSinkTest, ::testing::Values(false, true));

}  // namespace
}  // namespace quire::log
