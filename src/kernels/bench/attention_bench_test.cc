// The measurement itself, on a case small enough for a test: it counts what it says it counts.
#include "kernels/bench/attention_bench.h"

#include <gtest/gtest.h>

namespace quire::kernels::bench {
namespace {

constexpr AttentionCase kSmall = {
    .name = "small", .layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32, .n_keys = 100};

TEST(AttentionBench, CountsBytesAndOperations) {
    const auto decode = measure_decode(best_attention(), kSmall, 2, 3);
    if (decode.code() == Code::unsupported) GTEST_SKIP() << decode.error().message;
    ASSERT_TRUE(decode.ok());
    EXPECT_EQ(decode.value().bytes, 2 * 2 * 2 * 100 * 32 * 2);  // K and V, layers, heads, 16 bit
    EXPECT_EQ(decode.value().flop, 4.0 * 32 * 100 * 4 * 2);
    EXPECT_GT(decode.value().kernel_s, 0);
    EXPECT_GT(decode.value().read_s, 0);
    EXPECT_GT(decode.value().in_cache_s, 0);

    const auto prefill = measure_prefill(best_attention(), kSmall, 3, 2, 3);
    ASSERT_TRUE(prefill.ok());
    EXPECT_EQ(prefill.value().flop, 4.0 * 32 * (98 + 99 + 100) * 4 * 2);
    EXPECT_GT(prefill.value().share_of_peak(), 0);
}

TEST(AttentionBench, AWindowCountsOnlyWhatItSees) {
    AttentionCase c = kSmall;
    c.window = 40;
    const auto decode = measure_decode(best_attention(), c, 1, 1);
    if (decode.code() == Code::unsupported) GTEST_SKIP() << decode.error().message;
    EXPECT_EQ(decode.value().bytes, 2 * 2 * 2 * 40 * 32 * 2);
    EXPECT_EQ(decode.value().flop, 4.0 * 32 * 40 * 4 * 2);
}

TEST(AttentionBench, MeasuresEachPairOfWidths) {
    const Widths widths[] = {{8, 8}, {3, 2}};
    for (const int32_t rows : {1, 40}) {
        const auto result = measure_codes(best_attention(), kSmall, rows, widths, 2, 3);
        ASSERT_TRUE(result.ok()) << result.error().message;
        EXPECT_GT(result->exact_s, 0);
        ASSERT_EQ(result->codes_s.size(), 2u);
        for (const double s : result->codes_s) EXPECT_GT(s, 0);
    }
    const Widths wide[] = {{9, 8}};
    EXPECT_EQ(measure_codes(best_attention(), kSmall, 1, wide, 1, 1).code(), Code::unsupported);
}

TEST(AttentionBench, RefusesWhatTheKernelCannotRun) {
    AttentionCase c = kSmall;
    c.head_dim = 40;
    EXPECT_FALSE(measure_decode(best_attention(), c, 1, 1).ok());
}

}  // namespace
}  // namespace quire::kernels::bench
