#include "bench/text.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

TEST(BenchText, IsLongAndOurs) {
    EXPECT_GT(whole_text().size(), 30'000u);
    EXPECT_NE(whole_text().find("Apache License"), std::string_view::npos);
    EXPECT_EQ(whole_text().find('\0'), std::string_view::npos);
}

TEST(BenchText, PassagesRepeatBySeedOnly) {
    EXPECT_EQ(passage(3, 5000), passage(3, 5000));
    EXPECT_GE(passage(3, 5000).size(), 5000u);
    const std::string a = passage(1, 4000), b = passage(2, 4000);
    EXPECT_NE(a.substr(0, 16), b.substr(0, 16));
    EXPECT_NE(a.substr(100, 200), b.substr(100, 200));
}

}  // namespace
}  // namespace quire::bench
