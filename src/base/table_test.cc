#include "base/table.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(TextTable, AlignsColumns) {
    TextTable table({{"what"}, {"measured", Align::right}, {"ok"}});
    table.row({"prefill", "140.0", "yes"});
    table.row({"decode at depth 0", "9"});
    EXPECT_EQ(table.text(),
              "what              | measured | ok\n"
              "------------------|----------|----\n"
              "prefill           |    140.0 | yes\n"
              "decode at depth 0 |        9 |\n");
}

TEST(TextTable, CountsCodePointsAndKeepsRowsOnOneLine) {
    TextTable table({{"a"}, {"b"}});
    table.row({"é≥", "x\ny"});
    table.row({"", "z"});
    EXPECT_EQ(table.text(),
              "a  | b\n"
              "---|----\n"
              "é≥ | x y\n"
              "   | z\n");
}

TEST(TextTable, WithoutRowsItIsItsHead) {
    EXPECT_EQ(TextTable({{"a"}}).text(), "a\n-\n");
}

TEST(TextTableDeathTest, TooManyCellsAreABug) {
    TextTable table({{"a"}});
    EXPECT_DEATH(table.row({"1", "2"}), "more cells than columns");
}

}  // namespace
}  // namespace quire
