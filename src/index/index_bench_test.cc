// The bench at a toy size: rows are complete and lookups are right; speed is not judged here.
#include "index/index_bench.h"

#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(IndexBench, ReportsEveryRow) {
    IndexBenchOptions options;
    options.blocks = {20'000};
    options.lookups = 200;
    options.rounds = 1;
    const auto rows = run_index_bench(options);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    std::set<std::string> names;
    for (const IndexBenchRow& row : *rows) {
        EXPECT_TRUE(names.insert(row.what).second) << row.what;
        EXPECT_GT(row.measured, 0) << row.what;
    }
    EXPECT_GE(rows->size(), 8u);
}

TEST(IndexBench, RefusesSizesThatMakeNoSense) {
    IndexBenchOptions options;
    options.rounds = 0;
    EXPECT_EQ(run_index_bench(options).code(), Code::invalid);
    options = {};
    options.blocks = {10};
    EXPECT_EQ(run_index_bench(options).code(), Code::invalid);
}

}  // namespace
}  // namespace quire
