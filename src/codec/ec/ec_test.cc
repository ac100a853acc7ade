#include "codec/ec/ec.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/ec/testing.h"

namespace quire::codec::ec {
namespace {

TEST(Rans, FrequenciesAreADistributionWhateverTheCounts) {
    std::array<double, kSymbols> counts{};
    for (const double one : {0.0, 1.0, 1e9}) {
        counts[24] = one;
        uint32_t sum = 0;
        for (const uint16_t f : RansTable::fit(counts)) {
            EXPECT_GE(f, 1);
            sum += f;
        }
        EXPECT_EQ(sum, kProbabilities);
    }
}

TEST(Ec, ClassesAreQuartersOfAnOctave) {
    EXPECT_EQ(class_of(0, 1), 0u);
    EXPECT_EQ(class_of(1e30, 1e-30), kClasses - 1);
    for (uint32_t c = 0; c < kClasses; ++c) {
        const double middle = std::exp2(kLowestClass + c / 4.0);
        for (const double step : {1.0, 0.7, 1e-3}) {
            EXPECT_EQ(class_of(middle * step, step), c);
            EXPECT_EQ(class_of(middle * 1.09 * step, step), c);
            EXPECT_EQ(class_of(middle / 1.09 * step, step), c);
        }
    }
}

TEST(Ec, StepsTakeTheBitsAskedFor) {
    const Model model = small_model(2);
    const Coder coder(model);
    for (const double bits : {5.0, 4.0, 3.0, 2.0, 1.0}) {
        const double step = coder.step_for(bits);
        EXPECT_NEAR(coder.bits(step), bits, 0.05);
        EXPECT_GT(step, coder.steps().low);
        EXPECT_LT(step, coder.steps().high);
    }
}

TEST(Ec, ComesBackFromItsSidecar) {
    Model model = small_model(2);
    model.k[0][0].step = 0.5f;
    // The second layer is foretold by all that is before.
    for (auto* side : {&model.k, &model.v})
        (*side)[1][0].weights.assign((side == &model.k ? 4 : 6) * kDim * kDim, 0.25f);
    Sidecar sidecar{.layers = model.layers};
    EXPECT_EQ(Model::of(sidecar).code(), Code::miss);
    sidecar.k_mean_before.assign(4 * kDim, kMean);
    sidecar.v_mean = sidecar.k_mean_before;
    model.store(&sidecar);
    const auto read = parse_sidecar(sidecar_file(sidecar).bytes);
    ASSERT_TRUE(read.ok()) << read.error().message;
    const auto back = Model::of(read->sidecar);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->k[0][0].step, 0.5f);
    EXPECT_EQ(back->v[0][0].components, model.v[0][0].components);
    EXPECT_EQ(back->v[0][0].restore, model.v[0][0].restore);
    EXPECT_TRUE(back->k[0][0].weights.empty());
    EXPECT_EQ(back->v[1][0].weights, model.v[1][0].weights);
    EXPECT_EQ(back->classes[7].frequencies, model.classes[7].frequencies);
    EXPECT_EQ(back->layers, model.layers);

    const std::vector<std::byte> good = find_section(sidecar, kTag)->bytes;
    const auto refused = [&](std::vector<std::byte> bytes, const char* why) {
        Sidecar bad = sidecar;
        set_section(&bad, {kTag, std::move(bytes)});
        const auto result = Model::of(bad);
        ASSERT_EQ(result.code(), Code::corrupt);
        EXPECT_THAT(result.error().message, ::testing::HasSubstr(why));
    };
    for (size_t n = 0; n < good.size(); n += 173)
        refused({good.begin(), good.begin() + static_cast<int64_t>(n)}, "is cut short");
    std::vector<std::byte> more = good;
    more.push_back(std::byte{0});
    refused(more, "goes on");
    std::vector<std::byte> other = good;
    other[0] ^= std::byte{2};
    refused(other, "distribution");
    // Keys of the second layer cannot use those values.
    model.k[1][0].weights = model.v[1][0].weights;
    model.store(&sidecar);
    refused(find_section(sidecar, kTag)->bytes, "not decoded yet");
    // A layer of another window is not decoded before.
    model.k[1][0].weights.assign(kDim * kDim, 0.25f);
    model.v[1][0].weights.clear();
    model.store(&sidecar);
    EXPECT_TRUE(Model::of(sidecar).ok());
    sidecar.layers[0] = {KvKind::window, 2, kDim, 512};
    EXPECT_EQ(Model::of(sidecar).code(), Code::corrupt);
}

}  // namespace
}  // namespace quire::codec::ec
