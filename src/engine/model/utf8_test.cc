#include "engine/model/utf8.h"

#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Utf8, ValidTextIsUnchanged) {
    for (const char* text : {"", "plain", "é", "日本語", "😀", "a\u0301", "\U0010FFFF"}) {
        EXPECT_TRUE(is_utf8(text));
        EXPECT_EQ(repair_utf8(text), text);
    }
}

TEST(Utf8, InvalidSequencesAreReplacedByMaximalPrefixes) {
    const std::pair<const char*, std::string> cases[] = {
        {"\x80", kBad},
        {"a\xFFz", "a" + kBad + "z"},
        {"\xC0\xAF", kBad + kBad},                        // over-long '/'
        {"\xE0\x80\xAF", kBad + kBad + kBad},             // over-long, three bytes
        {"\xED\xA0\x80", kBad + kBad + kBad},             // a lone surrogate
        {"\xF4\x90\x80\x80", kBad + kBad + kBad + kBad},  // past U+10FFFF
        {"\xE6\x97", kBad},                               // cut
        {"\xE6\x97z", kBad + "z"},
        {"\xF0\x9F\x98\xE6\x97\xA5", kBad + "日"},
    };
    for (const auto& [in, out] : cases) {
        EXPECT_FALSE(is_utf8(in));
        EXPECT_EQ(repair_utf8(in), out);
    }
}

TEST(Utf8Assembler, AnyCutGivesTheSameTextAndOnlyWholeCharacters) {
    const std::string text = "a😀\xED\xA0\x80日\xFF é\xF0\x9F";
    for (uint32_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 rng(seed);
        Utf8Assembler assembler;
        std::string out;
        for (size_t i = 0; i < text.size();) {
            const size_t n = 1 + rng() % 3;
            const std::string got = assembler.push(std::string_view(text).substr(i, n));
            EXPECT_TRUE(is_utf8(got));
            out += got;
            i += n;
        }
        out += assembler.finish();
        EXPECT_EQ(out, repair_utf8(text));
    }
}

TEST(Utf8Assembler, KeepsBackOnlyWhatMayStillBecomeACharacter) {
    Utf8Assembler assembler;
    EXPECT_EQ(assembler.push("\xF0\x9F"), "");
    EXPECT_EQ(assembler.push("\x98"), "");
    EXPECT_EQ(assembler.push("\x80!"), "😀!");
    EXPECT_EQ(assembler.push("\xE6"), "");
    EXPECT_EQ(assembler.push("x"), kBad + "x");
    EXPECT_EQ(assembler.finish(), "");
}

}  // namespace
}  // namespace quire
