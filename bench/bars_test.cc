#include "bench/bars.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "bench/stats.h"

namespace quire::bench {
namespace {

TEST(Bars, RatioIsJudgedInItsDirection) {
    EXPECT_TRUE(ratio_row("a", "GB/s", 8, 10, Comparison::at_least, 0.8).ok);
    EXPECT_FALSE(ratio_row("a", "GB/s", 7.99, 10, Comparison::at_least, 0.8).ok);
    EXPECT_TRUE(ratio_row("a", "s", 1, 100, Comparison::at_most, 0.01).ok);
    EXPECT_FALSE(ratio_row("a", "s", 1.01, 100, Comparison::at_most, 0.01).ok);
    EXPECT_DOUBLE_EQ(*ratio_row("a", "s", 1, 4, Comparison::at_most, 1).ratio, 0.25);
}

TEST(Bars, NothingMeasuredIsNothingMet) {
    EXPECT_FALSE(ratio_row("a", "s", 1, 0, Comparison::at_most, 1).ok);
    EXPECT_FALSE(ratio_row("a", "s", NAN, 1, Comparison::at_most, 1).ok);
    EXPECT_FALSE(ratio_row("a", "s", 1, NAN, Comparison::at_most, 1).ok);
    EXPECT_FALSE(value_row("a", "s", NAN, Comparison::at_most, 1).ok);
    EXPECT_FALSE(paired_row("a", "s", 1, 1, NAN, Comparison::at_least, 0).ok);
    EXPECT_FALSE(failed_row("a", "why").ok);
    EXPECT_TRUE(info_row("a", "s", 1, 2).ok);
}

TEST(Bars, OneMissedBarMissesAll) {
    std::vector<BarRow> rows = {value_row("a", "B", 1, Comparison::at_most, 2),
                                info_row("b", "", 3)};
    EXPECT_TRUE(all_ok(rows));
    rows.push_back(failed_row("c", "no model"));
    EXPECT_FALSE(all_ok(rows));
}

TEST(Bars, AnErrorBecomesARowAndTheRestStays) {
    std::vector<BarRow> rows = {info_row("a", "", 1)};
    append(rows, "b", std::vector<BarRow>{info_row("c", "", 2)});
    append(rows, "d", make_error(Code::io, "no disk"));
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[2].what, "d");
    EXPECT_EQ(rows[2].note, "no disk");
    EXPECT_FALSE(all_ok(rows));
}

TEST(Bars, TableShowsEveryCellAndCounts) {
    const std::vector<BarRow> rows = {
        ratio_row("G2 load", "GB/s", 9, 10, Comparison::at_least, 0.8),
        value_row("left over", "B", 400.0 * (1 << 20), Comparison::at_most, 300.0 * (1 << 20)),
        info_row("told only", "tok/s", 123456),
        failed_row("broken", "the disk is full"),
    };
    EXPECT_EQ(bar_table(rows),
              "what      |      measured | reference | ratio |        bar | ok\n"
              "----------|---------------|-----------|-------|------------|----\n"
              "G2 load   |        9 GB/s |   10 GB/s |   0.9 |     >= 0.8 | yes\n"
              "left over |       400 MiB |           |       | <= 300 MiB | NO\n"
              "told only | 123,456 tok/s |           |       |            |\n"
              "broken    |             - |           |       |            | NO\n"
              "  broken: the disk is full\n"
              "1 of 3 bars met\n");
}

TEST(Bars, NumbersReadWell) {
    EXPECT_EQ(format_number(0.00312), "0.00312");
    EXPECT_EQ(format_number(1.0), "1");
    EXPECT_EQ(format_number(1234.5678), "1235");
    EXPECT_EQ(format_number(-1234567), "-1,234,567");
    EXPECT_EQ(format_number(-123456), "-123,456");
    EXPECT_EQ(format_number(100000), "100,000");
    EXPECT_EQ(format_number(NAN), "-");
    EXPECT_EQ(format_quantity(0.0015, "s"), "1.5 ms");
    EXPECT_EQ(format_quantity(0.00000234, "s"), "2.34 us");
    EXPECT_EQ(format_quantity(2.5, "s"), "2.5 s");
    EXPECT_EQ(format_quantity(1536, "B"), "1.5 KiB");
    EXPECT_EQ(format_quantity(-3.0 * (1 << 20), "B"), "-3 MiB");
}

TEST(Bars, JsonHasTheSameRows) {
    BenchReport report;
    report.bench = "tier";
    report.machine = {"a CPU", "avx2", 2, 1u << 30, "ext4 on /dev/sda"};
    report.rows = {ratio_row("read \"1 MiB\" \xff", "GB/s", 1, 2, Comparison::at_least, 0.9),
                   failed_row("write", "no fio")};
    const auto json = nlohmann::json::parse(report_json(report));
    EXPECT_EQ(json["bench"], "tier");
    EXPECT_EQ(json["machine"]["isa"], "avx2");
    EXPECT_EQ(json["ok"], false);
    ASSERT_EQ(json["bars"].size(), 2u);
    EXPECT_EQ(json["bars"][0]["ratio"], 0.5);
    EXPECT_EQ(json["bars"][0]["comparison"], ">=");
    EXPECT_EQ(json["bars"][0]["ok"], false);
    EXPECT_TRUE(json["bars"][1]["measured"].is_null());
    EXPECT_EQ(json["bars"][1]["note"], "no fio");
}

TEST(Stats, Median) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_TRUE(std::isnan(median({})));
    EXPECT_EQ(median_ratio({1, 20, 3}, {1, 10, 1}), 2);
}

}  // namespace
}  // namespace quire::bench
