// The shared exponential and tanh, and the bit-by-bit 16-bit conversions.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/ref/attention.h"
#include "kernels/ref/half.h"

namespace quire::kernels::ref {
namespace {

TEST(Math, Exp2IsAccurateAndExactAtTheEnds) {
    double worst = 0;
    for (float x = 0.0f; x >= -100.0f; x -= 0.000731f) {
        const double exact = std::exp2(static_cast<double>(x));
        worst = std::max(worst, std::fabs(exp2_nonpositive(x) - exact) / exact);
    }
    EXPECT_LT(worst, 2e-7);
    EXPECT_EQ(exp2_nonpositive(0.0f), 1.0f);
    EXPECT_EQ(exp2_nonpositive(-0.0f), 1.0f);
    for (int n = 1; n <= 100; ++n) EXPECT_EQ(exp2_nonpositive(-n), std::ldexp(1.0f, -n));
    EXPECT_EQ(exp2_nonpositive(-100.5f), 0.0f);
    EXPECT_EQ(exp2_nonpositive(-std::numeric_limits<float>::infinity()), 0.0f);
    EXPECT_TRUE(std::isnan(exp2_nonpositive(NAN)));
}

TEST(Math, TanhIsAccurate) {
    for (float x = -12.0f; x <= 12.0f; x += 0.00137f)
        ASSERT_NEAR(tanh_via_exp2(x), std::tanh(static_cast<double>(x)), 2e-7) << x;
    EXPECT_EQ(tanh_via_exp2(1e30f), 1.0f);
    EXPECT_EQ(tanh_via_exp2(-1e30f), -1.0f);
}

TEST(Half, EveryF16SurvivesTheRoundTrip) {
    for (uint32_t h = 0; h < 0x10000; ++h) {
        const float x = f16_to_f32(static_cast<uint16_t>(h));
        if (std::isnan(x))
            EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(x))));
        else
            EXPECT_EQ(f32_to_f16(x), h);
    }
    EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
    EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
    EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
}

TEST(Half, TiesGoToEven) {
    EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);
    EXPECT_EQ(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
    EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);
    EXPECT_EQ(f32_to_f16(0x1.8p-24f), 0x0002);
    EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
    EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    EXPECT_EQ(f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

}  // namespace
}  // namespace quire::kernels::ref
