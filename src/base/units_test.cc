#include "base/units.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(ParseSize, UnitsAndPlainBytes) {
    EXPECT_EQ(*parse_size("64GiB"), uint64_t{64} << 30);
    EXPECT_EQ(*parse_size("512MB"), 512'000'000u);
    EXPECT_EQ(*parse_size("4096"), 4096u);
    EXPECT_EQ(*parse_size("17b"), 17u);
    EXPECT_EQ(*parse_size("1.5 gib"), uint64_t{3} << 29);
    EXPECT_EQ(*parse_size(" 2KiB "), 2048u);
    EXPECT_EQ(*parse_size("0"), 0u);
    EXPECT_EQ(*parse_size("8388607TiB"), 8388607ull << 40);
}

TEST(ParseSize, AnythingElseIsInvalidAndNamed) {
    for (const char* bad : {"", "GiB", "-1", "1e9", "4 G", "4GiBs", "1.2.3", "0x10", "8388608TiB",
                            "99999999999999999999", "nan", "1,5GiB", ".", "12 34"}) {
        const auto result = parse_size(bad);
        ASSERT_EQ(result.code(), Code::invalid) << bad;
        EXPECT_THAT(result.error().message, HasSubstr(std::string("'") + bad + "'"));
    }
}

TEST(ParseDuration, UnitsAddUp) {
    EXPECT_EQ(*parse_duration("250ms"), 250 * kNsPerMs);
    EXPECT_EQ(*parse_duration("1h30m"), 5400 * kNsPerSecond);
    EXPECT_EQ(*parse_duration("0.5s"), kNsPerSecond / 2);
    EXPECT_EQ(*parse_duration("2d"), 2 * 86400 * kNsPerSecond);
    EXPECT_EQ(*parse_duration("3us7ns"), 3007);
    EXPECT_EQ(*parse_duration("0"), 0);
    for (const char* bad : {"", "30", "s", "-5s", "5 parsecs", "5s5", "106752d", "1.s2", "m5"})
        EXPECT_EQ(parse_duration(bad).code(), Code::invalid) << bad;
}

TEST(Format, ReadsWell) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");
    EXPECT_EQ(format_bytes(uint64_t{123} << 30), "123 GiB");
    EXPECT_EQ(format_duration(812), "812 ns");
    EXPECT_EQ(format_duration(1'200'000), "1.20 ms");
    EXPECT_EQ(format_duration(125 * kNsPerSecond), "2 min 5 s");
    EXPECT_EQ(format_duration(5400 * kNsPerSecond), "1 h 30 min");
    EXPECT_EQ(format_duration(-1500), "-1.50 us");
}

TEST(Exact, ParsesBackToTheSameValue) {
    EXPECT_EQ(exact_size(uint64_t{2} << 30), "2GiB");
    EXPECT_EQ(exact_size(1'500'000'000), "1500MB");
    EXPECT_EQ(exact_duration(600 * kNsPerSecond), "10m");
    std::mt19937_64 rng(4);
    for (int i = 0; i < 2000; ++i) {
        const uint64_t value = rng() >> (1 + rng() % 63);
        const uint64_t rounded = (value >> (rng() % 40) << (rng() % 20)) & ((1ull << 62) - 1);
        ASSERT_EQ(*parse_size(exact_size(rounded)), rounded) << "seed 4, round " << i;
        const auto ns = static_cast<int64_t>(rounded);
        ASSERT_EQ(*parse_duration(exact_duration(ns)), ns) << "seed 4, round " << i;
    }
}

}  // namespace
}  // namespace quire
