#include "codec/ec/ec.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::codec::ec {
namespace {

constexpr uint64_t kSeed = 11;
constexpr uint32_t kDim = 16;

// Tables of normal numbers for every class.
std::vector<ClassModel> normal_classes() {
    std::vector<ClassModel> classes(kClasses);
    for (uint32_t c = 0; c < kClasses; ++c) {
        const double deviation = std::exp2(kLowestClass + c / 4.0);  // in steps
        const auto below = [&](double x) { return 0.5 * std::erfc(-x / deviation / std::sqrt(2)); };
        std::array<double, kSymbols> counts;
        for (int32_t s = -kLargest; s <= kLargest; ++s)
            counts[static_cast<size_t>(s + kLargest)] =
                (s == kLargest ? 1 : below(s + 0.5)) - (s == -kLargest ? 0 : below(s - 0.5));
        classes[c].frequencies = RansTable::fit(counts);
    }
    return classes;
}

// One layer, one head, components along the axes, each half as wide as the one before.
Model small_model() {
    Model model{.classes = normal_classes()};
    for (auto* side : {&model.k, &model.v}) {
        HeadModel head{.head_dim = kDim, .mean = std::vector<float>(kDim, 2.5f)};
        head.components.assign(kDim * kDim, 0);
        for (uint32_t i = 0; i < kDim; ++i) {
            head.components[i * kDim + i] = 1;
            head.deviations.push_back(std::exp2(3.0f - 0.5f * static_cast<float>(i)));
        }
        head.restore = head.components;
        side->push_back({head});
    }
    return model;
}

std::vector<float> rows_of(const HeadModel& head, size_t tokens) {
    std::mt19937_64 rng(kSeed);
    std::normal_distribution<float> normal;
    std::vector<float> rows;
    for (size_t i = 0; i < tokens * kDim; ++i)
        rows.push_back(head.mean[i % kDim] + head.deviations[i % kDim] * normal(rng));
    return rows;
}

std::vector<float> expected(const HeadModel& head, size_t tokens) {
    return Decoded(tokens).expect(head);
}

TEST(Rans, SymbolsComeBackAtTheirEntropy) {
    const std::vector<ClassModel> classes = normal_classes();
    std::vector<RansTable> tables;
    for (const ClassModel& one : classes) tables.emplace_back(one.frequencies);
    std::mt19937_64 rng(kSeed);
    for (const size_t n : {0u, 1u, 3u, 5u, 20000u}) {
        std::vector<CodedSymbol> symbols;
        double bits = 0;
        for (size_t i = 0; i < n; ++i) {
            const RansTable& table = tables[rng() % kClasses];
            const uint32_t symbol = table.symbol_at(rng() % kProbabilities);
            bits += table.cost_bits(symbol);
            symbols.push_back({static_cast<uint8_t>(symbol), &table});
        }
        std::vector<std::byte> stream;
        rans_encode(symbols, &stream);
        RansReader reader(stream);
        for (const CodedSymbol& one : symbols) ASSERT_EQ(reader.next(*one.table), one.symbol);
        EXPECT_EQ(reader.used_bytes(), stream.size());
        EXPECT_LT(8.0 * static_cast<double>(stream.size()), bits * 1.001 + 8 * kStateBytes + 16);
    }
}

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

TEST(Ec, ErrorIsThatOfTheStepAndBitsAreThoseAskedFor) {
    const Model model = small_model();
    const Coder coder(model);
    const HeadModel& head = model.k[0][0];
    const std::vector<float> rows = rows_of(head, 256);
    for (const double bits : {4.0, 3.0, 2.0, 1.0}) {
        const double step = coder.step_for(bits);
        EXPECT_NEAR(coder.bits(step), bits, 0.05);
        std::vector<std::byte> bytes;
        EXPECT_EQ(coder.encode(head, step, rows, expected(head, 256), &bytes), 0u);
        EXPECT_NEAR(8.0 * static_cast<double>(bytes.size()) / static_cast<double>(rows.size()),
                    bits, 0.15);
        std::vector<float> back(rows.size());
        EXPECT_TRUE(coder.decode(head, step, bytes, expected(head, 256), back));
        double error = 0;
        for (size_t i = 0; i < rows.size(); ++i)
            error += std::pow(double{rows[i]} - double{back[i]}, 2);
        // A uniform quantiser's step^2 / 12 at most: components below the step cost less.
        EXPECT_LT(error / static_cast<double>(rows.size()), step * step / 12 * 1.05);
    }
}

TEST(Ec, OutliersEscapeAndRowsThatAreNotFiniteBecomeTheMean) {
    const Model model = small_model();
    const Coder coder(model);
    const HeadModel& head = model.v[0][0];
    std::vector<float> rows = rows_of(head, 16);
    rows[5] = 1e5f;
    rows[3 * kDim + 2] = -30000.0f;
    rows[7 * kDim] = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::byte> bytes;
    EXPECT_EQ(coder.encode(head, 1, rows, expected(head, 16), &bytes), 1u);
    std::vector<float> back(rows.size());
    EXPECT_TRUE(coder.decode(head, 1, bytes, expected(head, 16), back));
    for (size_t i = 0; i < rows.size(); ++i) {
        if (i / kDim == 7)
            EXPECT_EQ(back[i], 2.5f);
        else
            EXPECT_NEAR(back[i], rows[i], 0.51f) << i;
    }
}

TEST(Ec, AnyBytesGiveRowsAndAreNotBelieved) {
    const Model model = small_model();
    const Coder coder(model);
    const HeadModel& head = model.k[0][0];
    const std::vector<float> rows = rows_of(head, 16);
    std::vector<std::byte> bytes;
    coder.encode(head, 1, rows, expected(head, 16), &bytes);
    std::vector<float> back(rows.size());
    for (size_t n = 0; n < bytes.size(); ++n)
        EXPECT_FALSE(coder.decode(head, 1, std::span(bytes).first(n), expected(head, 16), back))
            << n;
    std::mt19937_64 rng(kSeed);
    for (int round = 0; round < 50; ++round) {
        std::vector<std::byte> noise(rng() % 300);
        for (std::byte& b : noise) b = static_cast<std::byte>(rng());
        (void)coder.decode(head, 1, noise, expected(head, 16), back);
        for (const float x : back) ASSERT_TRUE(std::isfinite(x)) << "round " << round;
    }
}

TEST(Ec, WhatTheLayerBeforeForetellsCostsNothing) {
    Model model = small_model();
    const Coder coder(model);
    const HeadModel& before = model.k[0][0];
    const std::vector<float> rows = rows_of(before, 64);
    Decoded inputs(64);
    inputs.add(before, rows);
    EXPECT_EQ(inputs.width(), kDim);
    // Each number is twice its neighbour of the layer before.
    HeadModel head = before;
    head.weights.assign(kDim * kDim, 0);
    std::vector<float> next(rows.size());
    for (uint32_t d = 0; d < kDim; ++d) head.weights[(d + 1) % kDim * kDim + d] = 2;
    for (size_t i = 0; i < rows.size(); ++i) {
        const size_t d = i % kDim, from = i - d + (d + 1) % kDim;
        next[i] = head.mean[d] + 2 * (rows[from] - before.mean[(d + 1) % kDim]);
    }
    const std::vector<float> foretold = inputs.expect(head);
    for (size_t i = 0; i < next.size(); ++i) ASSERT_NEAR(foretold[i], next[i], 1e-3f);
    std::vector<std::byte> with, without;
    coder.encode(head, 0.5, next, foretold, &with);
    coder.encode(head, 0.5, next, expected(before, 64), &without);
    EXPECT_LT(with.size(), without.size() / 2);
    std::vector<float> back(next.size());
    EXPECT_TRUE(coder.decode(head, 0.5, with, foretold, back));
    for (size_t i = 0; i < next.size(); ++i) ASSERT_NEAR(back[i], next[i], 0.3f);
    // With weights for fewer numbers, those decoded last count.
    head.weights.assign(kDim, 1);
    EXPECT_NEAR(inputs.expect(head)[3], head.mean[3] + rows[kDim - 1] - before.mean[0], 1e-3f);
    // Weights for more are not used.
    head.weights.assign(2 * kDim * kDim, 1);
    EXPECT_EQ(inputs.expect(head), expected(before, 64));
    EXPECT_EQ(Decoded(64).expect(head), expected(before, 64));
}

TEST(Ec, ComesBackFromItsSidecar) {
    Model model = small_model();
    model.k[0][0].step = 0.5f;
    for (auto* side : {&model.k, &model.v}) {
        side->push_back(side->front());  // a second layer, foretold by all that is before
        side->back()[0].weights.assign((side == &model.k ? 2 : 3) * kDim * kDim, 0.25f);
    }
    Sidecar sidecar{.layers = {{KvKind::full, 1, kDim, 0}, {KvKind::full, 1, kDim, 0}}};
    EXPECT_EQ(Model::of(sidecar).code(), Code::miss);
    sidecar.k_mean_before.assign(2 * kDim, 2.5f);
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

    const std::vector<std::byte> good = find_section(sidecar, kTag)->bytes;
    const auto refused = [&](std::vector<std::byte> bytes, const char* why) {
        Sidecar bad = sidecar;
        set_section(&bad, {kTag, std::move(bytes)});
        const auto result = Model::of(bad);
        ASSERT_EQ(result.code(), Code::corrupt);
        EXPECT_THAT(result.error().message, ::testing::HasSubstr(why));
    };
    for (size_t n = 0; n < good.size(); n += 13)
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
}

}  // namespace
}  // namespace quire::codec::ec
