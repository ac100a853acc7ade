#include "codec/ec/layered.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "codec/ec/testing.h"

namespace quire::codec::ec {
namespace {

constexpr uint32_t kLayeredTokens = 128;

LayeredCoder layered_coder(const Model& model, double base_bits, double more_bits) {
    auto made = LayeredCoder::create(model, whole_chain(model), base_bits, more_bits);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
}

TEST(EcLayered, TheBaseAloneIsCoarseAndBothAreNearlyOneBlockOfTheirBits) {
    const Model model = foretold_model(3, 0.5f);
    const BlockRows rows = random_rows(3, kLayeredTokens);
    const double numbers = 3 * 2 * 2 * kLayeredTokens * kDim;
    for (const double base_bits : {1.0, 2.0}) {
        const LayeredCoder coder = layered_coder(model, base_bits, 2.0);
        LayeredScratch scratch;
        std::vector<std::byte> base, more, whole;
        EXPECT_EQ(coder.encode(kLayeredTokens, reads(rows), &scratch, &base, &more), 0u);
        BlockRows coarse, fine, single;
        BlockScratch block;
        ASSERT_TRUE(coder.base().decode(base, kLayeredTokens, keeps(&coarse), &block).ok());
        ASSERT_TRUE(coder.decode(base, more, kLayeredTokens, keeps(&fine), &scratch).ok());
        EXPECT_LT(mean_square(rows, fine) * 6, mean_square(rows, coarse)) << base_bits;
        // One block of as many bytes, for what two parts cost: less than half a bit a number.
        const double bits = 8.0 * static_cast<double>(base.size() + more.size()) / numbers;
        auto one = BlockCoder::create(model, whole_chain(model), bits);
        ASSERT_TRUE(one.ok());
        one->encode(kLayeredTokens, reads(rows), &block, &whole);
        ASSERT_TRUE(one->decode(whole, kLayeredTokens, keeps(&single), &block).ok());
        EXPECT_LT(std::log2(mean_square(rows, fine) / mean_square(rows, single)) / 2, 0.5)
            << base_bits;
    }
}

TEST(EcLayered, PartsThatWereNotWrittenTogetherAreSafeAndMostlyCorrupt) {
    const Model model = small_model(2);
    const LayeredCoder coder = layered_coder(model, 1.5, 1.5);
    LayeredScratch scratch;
    std::vector<std::byte> base, more;
    coder.encode(kLayeredTokens, reads(random_rows(2, kLayeredTokens)), &scratch, &base, &more);
    BlockRows back;
    const auto code = [&](std::span<const std::byte> a, std::span<const std::byte> b) {
        return coder.decode(a, b, kLayeredTokens, keeps(&back), &scratch).code();
    };
    EXPECT_EQ(code(more, base), Code::corrupt);
    EXPECT_EQ(code(base, std::span(more).first(more.size() / 2)), Code::corrupt);
    EXPECT_EQ(code(std::span(base).first(10), more), Code::corrupt);
    EXPECT_EQ(code(base, {}), Code::corrupt);
}

TEST(EcLayered, ARowThatIsNotFiniteSpoilsNoOther) {
    const Model model = small_model(2);
    const LayeredCoder coder = layered_coder(model, 2, 2);
    BlockRows rows = random_rows(2, 32);
    const BlockRows sound = rows;
    rows[1][0][5] = std::numeric_limits<float>::quiet_NaN();
    LayeredScratch scratch;
    std::vector<std::byte> base, more;
    EXPECT_EQ(coder.encode(32, reads(rows), &scratch, &base, &more), 1u);
    BlockRows back;
    ASSERT_TRUE(coder.decode(base, more, 32, keeps(&back), &scratch).ok());
    for (size_t i = 0; i < back[1][0].size(); ++i) {
        EXPECT_TRUE(std::isfinite(back[1][0][i])) << i;
        if (i >= kDim) {
            EXPECT_NEAR(back[1][0][i], sound[1][0][i], 2.0f) << i;
        }
    }
}

}  // namespace
}  // namespace quire::codec::ec
