#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(StopMatcher, PassesTextThroughWithoutStops) {
    StopMatcher matcher({});
    EXPECT_EQ(matcher.feed("hello"), "hello");
    EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStop) {
    StopMatcher matcher({"END"});
    EXPECT_EQ(matcher.feed("abcE"), "abc");
    EXPECT_EQ(matcher.feed("N"), "");
    EXPECT_EQ(matcher.feed("x"), "ENx");
    EXPECT_EQ(matcher.feed("EE"), "E");
    EXPECT_EQ(matcher.feed("ND tail"), "");
    EXPECT_TRUE(matcher.stopped());
    EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, TheFirstStopInTheTextWins) {
    StopMatcher matcher({"zz", "b"});
    EXPECT_EQ(matcher.feed("aabzz"), "aa");
    EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, FlushGivesBackAnUnfinishedStop) {
    StopMatcher matcher({"END"});
    EXPECT_EQ(matcher.feed("xEN"), "x");
    EXPECT_EQ(matcher.flush(), "EN");
}

// However a text is cut, what comes out is the text before the first stop.
TEST(StopMatcher, CuttingDoesNotMatter) {
    const std::string text = "ababcabababd-stop-after";
    for (size_t a = 0; a <= text.size(); ++a) {
        for (size_t b = a; b <= text.size(); ++b) {
            StopMatcher matcher({"ababd", "after"});
            std::string out = matcher.feed(text.substr(0, a));
            out += matcher.feed(text.substr(a, b - a));
            out += matcher.feed(text.substr(b));
            out += matcher.flush();
            ASSERT_EQ(out, "ababcab") << a << " " << b;
        }
    }
}

}  // namespace
}  // namespace quire
