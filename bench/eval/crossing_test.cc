#include "bench/eval/crossing.h"

#include <gtest/gtest.h>

#include "bench/eval/eval_bars.h"

namespace quire::bench {
namespace {

const std::vector<Rate> kRates = {{4, 1e-4}, {2, 1e-2}, {3, 1e-3}};  // in no order

TEST(Crossing, IsWhereTheLogarithmsMeet) {
    EXPECT_NEAR(bits_at(kRates, 3.1622777e-3).value(), 2.5, 1e-6);
    EXPECT_NEAR(bits_at(kRates, 3.1622777e-4).value(), 3.5, 1e-6);
    EXPECT_EQ(bits_at(kRates, 1e-3), 3.0);
    EXPECT_EQ(bits_at(kRates, 1e-2), 2.0);
    EXPECT_NEAR(divergence_at(kRates, 2.5).value(), 3.1622777e-3, 1e-9);
    EXPECT_EQ(divergence_at(kRates, 4), 1e-4);
}

TEST(Crossing, IsNotGuessedOutsideTheRates) {
    EXPECT_FALSE(bits_at(kRates, 2e-2).has_value());
    EXPECT_FALSE(bits_at(kRates, 5e-5).has_value());
    EXPECT_FALSE(bits_at(kRates, 0).has_value());
    EXPECT_FALSE(bits_at({}, 1e-3).has_value());
    EXPECT_FALSE(divergence_at(kRates, 1.9).has_value());
    EXPECT_FALSE(divergence_at(kRates, 4.1).has_value());
}

TEST(Crossing, CountsFromTheLastTimeThatMoreBitsWereWorse) {
    // 3 bits happen to be worse than 2.5.
    EXPECT_NEAR(bits_at({{2, 1e-1}, {2.5, 1e-3}, {3, 1e-2}, {4, 1e-4}}, 1e-3).value(), 3.5, 1e-6);
}

EvalRow row(std::string name, double bits, double kl) {
    EvalRow out;
    out.name = std::move(name);
    out.bits = bits;
    out.divergence.mean = kl;
    return out;
}

const BarRow* find(const std::vector<BarRow>& bars, std::string_view part) {
    for (const BarRow& bar : bars)
        if (bar.what.find(part) != std::string::npos) return &bar;
    return nullptr;
}

TEST(EvalBars, JudgeTheColdCodecBetweenItsRates) {
    const BenchModel model{.name = "SmolLM2-135M", .path = "SmolLM2-135M.gguf"};
    ASSERT_TRUE(model.smollm2());
    std::vector<EvalRow> rows = {row("ec:2", 2, 1e-2), row("ec:4", 4, 1e-4),
                                 row("fp8_e4m3_token:plain", 8.25, 1e-3),
                                 row("q4_0:rotated", 4.5, 1e-2), row("nvfp4", 4.5, 1)};
    const std::vector<BarRow> bars = eval_bars(model, rows);
    const BarRow* fp8 = find(bars, "bits at which the KL of ec equals that of fp8_e4m3_token");
    ASSERT_NE(fp8, nullptr);
    EXPECT_NEAR(fp8->measured, 3, 1e-9);
    EXPECT_EQ(fp8->bar, 3.0);
    EXPECT_TRUE(fp8->ok);
    const BarRow* nvfp4 = find(bars, "equals that of nvfp4");
    ASSERT_NE(nvfp4, nullptr);
    EXPECT_FALSE(nvfp4->ok);  // not bracketed: not met
    EXPECT_NE(nvfp4->note.find("--caches"), std::string::npos);
    const BarRow* q4 = find(bars, "KL of ec at 2.1 bits over q4_0:rotated");
    ASSERT_NE(q4, nullptr);
    EXPECT_NEAR(q4->ratio.value(), 0.7943, 1e-3);
    // Without rates of ec, or with one, nothing is said of it.
    rows.erase(rows.begin(), rows.begin() + 1);
    EXPECT_EQ(find(eval_bars(model, rows), "of ec"), nullptr);
}

TEST(EvalBars, JudgeTheSchedulesBetweenTheirRates) {
    const BenchModel model{.name = "Gemma-3-270M", .path = "gemma-3-270m.gguf"};
    ASSERT_TRUE(model.gemma3());
    const std::vector<BarRow> bars =
        eval_bars(model, {row(schedule_name(2.65), 2.6, 1e-1), row(schedule_name(3.35), 3.3, 1e-3),
                          row("nvfp4_4over6", 4.5, 1e-2)});
    const BarRow* bar = find(bars, "equals that of nvfp4_4over6");
    ASSERT_NE(bar, nullptr);
    EXPECT_NEAR(bar->measured, 2.95, 1e-6);
    EXPECT_EQ(bar->bar, 2.7);
    EXPECT_FALSE(bar->ok);
}

}  // namespace
}  // namespace quire::bench
