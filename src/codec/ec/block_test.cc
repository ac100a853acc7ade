#include "codec/ec/block.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "codec/ec/kernels.h"
#include "codec/ec/testing.h"
#include "codec/vectors/golden.h"

namespace quire::codec::ec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BlockCoder coder_of(const Model& model, double bits) {
    auto made = BlockCoder::create(model, whole_chain(model), bits);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
}

std::vector<std::byte> encoded(const BlockCoder& coder, const BlockRows& rows, uint32_t tokens) {
    std::vector<std::byte> bytes;
    BlockScratch scratch;
    coder.encode(tokens, reads(rows), &scratch, &bytes);
    return bytes;
}

BlockRows decoded(const BlockCoder& coder, std::span<const std::byte> bytes, uint32_t tokens) {
    BlockRows rows;
    BlockScratch scratch;
    const Status status = coder.decode(bytes, tokens, keeps(&rows), &scratch);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return rows;
}

TEST(EcBlock, ErrorIsThatOfTheStepAndBitsAreThoseAskedFor) {
    const Model model = small_model(3);
    for (const double bits : {4.0, 3.0, 2.0, 1.0}) {
        const BlockCoder coder = coder_of(model, bits);
        const double step = Coder(model).step_for(bits);
        const BlockRows rows = random_rows(3, 256);
        const std::vector<std::byte> bytes = encoded(coder, rows, 256);
        const double numbers = 3 * 2 * 2 * 256 * kDim;
        EXPECT_NEAR(8.0 * static_cast<double>(bytes.size()) / numbers, bits, 0.2);
        // A uniform quantiser's step^2 / 12 at most: components below the step cost less.
        EXPECT_LT(mean_square(rows, decoded(coder, bytes, 256)), step * step / 12 * 1.05);
    }
}

// More bits than steps can give: the finest step, and as few: the coarsest. Both are ends of what a
// block may say, and a float rarely is such an end.
TEST(EcBlock, TheEndsOfTheStepsComeBackToo) {
    for (int i = 0; i < 20; ++i) {
        Model model = small_model(2);
        for (auto* side : {&model.k, &model.v})
            for (auto& layer : *side)
                for (HeadModel& head : layer) head.step = 1.0f + 0.0137f * static_cast<float>(i);
        for (const double bits : {30.0, 0.0}) {
            const BlockCoder coder = coder_of(model, bits);
            const BlockRows rows = random_rows(2, 32);
            const std::vector<std::byte> bytes = encoded(coder, rows, 32);
            EXPECT_EQ(decoded(coder, bytes, 32).size(), 2u) << i << " at " << bits << " bits";
        }
    }
}

// A sidecar from outside may hold any finite numbers.
TEST(EcBlock, WeightsOfAnySizeAreSafe) {
    for (const float weight : {1e-45f, 1e-40f, 3e38f, -3e38f}) {
        const Model model = foretold_model(3, weight);
        const BlockCoder coder = coder_of(model, 3);
        const std::vector<std::byte> bytes = encoded(coder, random_rows(3, 32), 32);
        EXPECT_EQ(decoded(coder, bytes, 32).size(), 3u) << weight;
    }
}

TEST(EcBlock, AnyNumberOfTokens) {
    const Model model = foretold_model(3, 0.9f);
    const BlockCoder coder = coder_of(model, 3);
    BlockScratch scratch;
    for (const uint32_t tokens : {1u, 5u, 15u, 16u, 17u, 31u, 33u, 64u, 100u, 256u, 16u}) {
        const BlockRows rows = random_rows(3, tokens, tokens);
        std::vector<std::byte> bytes(3, std::byte{7});  // what is there stays
        EXPECT_EQ(coder.encode(tokens, reads(rows), &scratch, &bytes), 0u);
        BlockRows back;
        EXPECT_TRUE(coder.decode(std::span(bytes).subspan(3), tokens, keeps(&back), &scratch).ok())
            << tokens;
        ASSERT_EQ(back[2][1].size(), rows[2][1].size());
        EXPECT_LT(mean_square(rows, back), 0.2) << tokens;
    }
}

TEST(EcBlock, WhatEarlierLayersForetellCostsLess) {
    // Every number is .95 of its neighbour of the layer before, and a little of its own.
    BlockRows rows = random_rows(4, 64);
    const BlockRows own = rows;
    for (size_t l = 1; l < rows.size(); ++l)
        for (size_t s = 0; s < 2; ++s)
            for (size_t i = 0; i < rows[l][s].size(); ++i) {
                const size_t from = i - i % kDim + (i + kDim - 1) % kDim;
                rows[l][s][i] =
                    kMean + 0.95f * (rows[l - 1][s][from] - kMean) + 0.05f * (own[l][s][i] - kMean);
            }
    const std::vector<std::byte> alone = encoded(coder_of(small_model(4), 3), rows, 64);
    const BlockCoder foretelling = coder_of(foretold_model(4, 0.95f), 3);
    const std::vector<std::byte> bytes = encoded(foretelling, rows, 64);
    EXPECT_LT(bytes.size(), alone.size() * 4 / 5);
    EXPECT_LT(mean_square(rows, decoded(foretelling, bytes, 64)), 0.2);
}

TEST(EcBlock, BlocksOfAnotherRateAreRead) {
    const Model model = foretold_model(2, 0.5f);
    const BlockRows rows = random_rows(2, 48);
    const BlockCoder fine = coder_of(model, 4), coarse = coder_of(model, 1.5);
    const std::vector<std::byte> bytes = encoded(fine, rows, 48);
    EXPECT_EQ(decoded(coarse, bytes, 48), decoded(fine, bytes, 48));
    // One scratch for several coders and rates.
    BlockScratch scratch;
    const BlockCoder other = coder_of(small_model(2), 2);
    for (int round = 0; round < 2; ++round)
        for (const BlockCoder* coder : {&fine, &coarse, &other}) {
            std::vector<std::byte> own;
            coder->encode(48, reads(rows), &scratch, &own);
            BlockRows back;
            EXPECT_TRUE(
                (coder == &other ? other : coarse).decode(own, 48, keeps(&back), &scratch).ok());
            EXPECT_EQ(back, decoded(*coder, own, 48));
        }
}

TEST(EcBlock, OutliersEscapeAndRowsThatAreNotFiniteBecomeWhatWasExpected) {
    const Model model = foretold_model(2, 0.0f);
    const BlockCoder coder = coder_of(model, 3);
    BlockRows rows = random_rows(2, 20);
    const BlockRows good = rows;
    const auto at = [](uint32_t head, uint32_t token) { return (head * 20 + token) * kDim; };
    rows[0][0][at(0, 5) + 3] = 1e4f;
    rows[1][1][at(1, 19) + 31] = -30000.0f;
    rows[0][1][at(1, 7)] = std::numeric_limits<float>::quiet_NaN();
    rows[0][1][at(1, 8) + 31] = -std::numeric_limits<float>::infinity();
    std::vector<std::byte> bytes;
    BlockScratch scratch;
    EXPECT_EQ(coder.encode(20, reads(rows), &scratch, &bytes), 2u);
    const BlockRows back = decoded(coder, bytes, 20);
    EXPECT_NEAR(back[0][0][at(0, 5) + 3], 1e4f, 1);
    EXPECT_NEAR(back[1][1][at(1, 19) + 31], -30000.0f, 1);
    for (uint32_t d = 0; d < 2 * kDim; ++d) EXPECT_EQ(back[0][1][at(1, 7) + d], kMean);
    // All else is as without them.
    rows = good;
    rows[0][0][at(0, 5) + 3] = 1e4f;
    rows[1][1][at(1, 19) + 31] = -30000.0f;
    BlockRows same = decoded(coder, encoded(coder, rows, 20), 20);
    std::fill_n(same[0][1].begin() + at(1, 7), 2 * kDim, kMean);
    EXPECT_EQ(same, back);
}

TEST(EcBlock, DamagedBlocksAreFoundOut) {
    const Model model = foretold_model(2, 0.5f);
    const BlockCoder coder = coder_of(model, 3);
    const std::vector<std::byte> bytes = encoded(coder, random_rows(2, 16), 16);
    BlockScratch scratch;
    const auto never = [](uint32_t, const LayerRows& rows) {
        for (const float x : rows.k) ASSERT_TRUE(std::isfinite(x));
    };
    for (size_t n = 0; n < bytes.size(); n += 1 + n / 50)
        EXPECT_EQ(coder.decode(std::span(bytes).first(n), 16, never, &scratch).code(),
                  Code::corrupt)
            << n;
    std::vector<std::byte> more = bytes;
    more.push_back(std::byte{0});
    EXPECT_EQ(coder.decode(more, 16, never, &scratch).code(), Code::corrupt);
    EXPECT_EQ(coder.decode(bytes, 15, never, &scratch).code(), Code::corrupt);
    std::mt19937_64 rng(kSeed);
    for (int round = 0; round < 50; ++round) {
        std::vector<std::byte> noise = bytes;
        for (size_t i = round % 2 == 0 ? 0 : 8; i < noise.size(); ++i)
            noise[i] = static_cast<std::byte>(rng());
        EXPECT_EQ(coder.decode(noise, 16, never, &scratch).code(), Code::corrupt) << round;
    }
}

// Everything in it is exact, or far from where rounding decides.
TEST(EcBlock, BytesAndRowsAreThoseOfTheFormat) {
    Model model = foretold_model(2, 0.5f);
    for (uint32_t c = 0; c < kClasses; ++c) {
        std::array<double, kSymbols> counts{};
        for (int32_t s = -kLargest; s <= kLargest; ++s)
            counts[static_cast<size_t>(s + kLargest)] =
                std::ldexp(1, -std::abs(s) * 8 / static_cast<int32_t>(c + 1));
        model.classes[c].frequencies = RansTable::fit(counts);
        model.classes[c].shrink_one = 0.0625f;
    }
    for (auto* side : {&model.k, &model.v})
        for (auto& layer : *side)
            for (HeadModel& head : layer)
                for (uint32_t d = 0; d < kDim; ++d)
                    head.deviations[d] = std::ldexp(1.0f, 2 - static_cast<int>(d / 8));
    BlockRows rows(2);
    for (uint64_t l = 0; l < 2; ++l) {
        GoldenInput in = golden_input(kDim, 2 * 24, l + 1);
        for (auto* side : {&in.k, &in.v})
            for (float& x : *side) x = std::fabs(x) < 1e6f ? x : 0;
        rows[l] = {in.k, in.v};
    }
    BlockRows back;
    const std::vector<std::byte> bytes = encoded(coder_of(model, 3), rows, 24);
    back = decoded(coder_of(model, 3), bytes, 24);
    EXPECT_EQ(crc32c(bytes), 2119000684u);
    std::vector<float> all;
    for (const auto& layer : back)
        for (const auto& side : layer) all.insert(all.end(), side.begin(), side.end());
    EXPECT_EQ(crc32c(std::as_bytes(std::span(all))), 2894418787u);
}

TEST(EcBlock, ChainsAreByKindAndForetoldFromThemselves) {
    Model model = foretold_model(5, 0.5f);
    for (const size_t l : {0u, 2u, 3u}) model.layers[l] = {KvKind::window, 2, kDim, 512};
    model.layers[4] = {KvKind::window, 2, kDim, 1024};
    EXPECT_THAT(chains_of(model.layers),
                ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1), ElementsAre(4)));
    const auto code = [&](std::vector<uint16_t> chain) {
        return BlockCoder::create(model, std::move(chain), 3).code();
    };
    EXPECT_EQ(code({0, 2, 3}), Code::ok);
    EXPECT_EQ(code({0}), Code::ok);
    EXPECT_EQ(code({0, 2}), Code::ok);
    EXPECT_EQ(code({2, 3}), Code::unsupported);     // needs 0
    EXPECT_EQ(code({0, 3}), Code::unsupported);     // needs 2
    EXPECT_EQ(code({0, 1, 2}), Code::unsupported);  // 1 is of another kind
    EXPECT_EQ(code({1}), Code::unsupported);        // there is nothing before it
    EXPECT_EQ(code({}), Code::invalid);
    EXPECT_EQ(code({0, 9}), Code::invalid);
    EXPECT_EQ(code({2, 0}), Code::invalid);
    EXPECT_THAT(BlockCoder::create(model, {4}, 3).error().message, HasSubstr("layer 4"));
}

}  // namespace
}  // namespace quire::codec::ec
