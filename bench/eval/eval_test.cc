#include <cmath>
#include <random>
#include <utility>

#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include "bench/eval/candidate.h"
#include "bench/eval/components.h"
#include "bench/eval/divergence.h"
#include "bench/eval/ec_candidate.h"
#include "bench/eval/metric.h"
#include "bench/eval/ridge.h"
#include "bench/eval/schedule.h"
#include "bench/eval/skipping.h"
#include "engine/model/joined_widths.h"

namespace quire::bench {
namespace {

TEST(Divergence, IsZeroForEqualRowsAndTheTextbookValueForOthers) {
    const std::vector<float> a = {0.0f, std::log(3.0f)};  // 1/4, 3/4
    const std::vector<float> b = {5.0f, 5.0f};            // 1/2, 1/2
    EXPECT_EQ(divergence(LogitRow(a), LogitRow(a)), 0.0);
    EXPECT_NEAR(divergence(LogitRow(a), LogitRow(b)), 0.25 * std::log(0.5) + 0.75 * std::log(1.5),
                1e-6);
}

TEST(Divergence, CountsTopTokensAndPerplexity) {
    const std::vector<float> a = {0.0f, 1.0f};
    const std::vector<float> b = {1.0f, 0.0f};
    DivergenceTally tally;
    tally.add(LogitRow(a), LogitRow(a), 1);
    tally.add(LogitRow(a), LogitRow(b), 1);
    const Divergence d = tally.result();
    EXPECT_EQ(d.positions, 2u);
    EXPECT_EQ(d.top1, 0.5);
    EXPECT_EQ(d.first_difference, 1u);
    EXPECT_NEAR(d.perplexity_ratio, std::exp(0.5), 1e-6);
    EXPECT_EQ(d.median, d.max);
}

double error_of(const Candidate& candidate, uint32_t dims) {
    ggml_cpu_init();
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> k(64 * dims), v(64 * dims);
    for (float& x : k) x = normal(random);
    for (float& x : v) x = normal(random);
    std::vector<float> coded_k = k, coded_v = v;
    candidate.apply({.k = coded_k.data(), .v = coded_v.data(), .tokens = 64, .head_dim = dims});
    double error = 0;
    for (size_t i = 0; i < k.size(); ++i)
        error += std::pow(double{coded_k[i]} - k[i], 2) + std::pow(double{coded_v[i]} - v[i], 2);
    return error / static_cast<double>(2 * k.size());
}

TEST(Candidates, ErrorOnNormalNumbersIsWhatTheirBitsAllow) {
    for (const std::string& name : peer_names()) {
        const auto peer = peer_candidate(name);
        ASSERT_NE(peer, nullptr) << name;
        EXPECT_TRUE(peer->reference());
        for (const uint32_t dims : {64u, 256u}) {
            ASSERT_TRUE(peer->fits(dims).ok()) << name;
            const double error = error_of(*peer, dims);
            EXPECT_GT(error, 0) << name;
            // No scalar quantiser beats 4^-bits on normal numbers; none of these is 30 times worse.
            EXPECT_GT(error, std::pow(4, -peer->bits(dims) - 0.1)) << name;
            EXPECT_LT(error, 30 * std::pow(4, -peer->bits(dims) + 1)) << name;
        }
    }
}

TEST(Candidates, FormatsOfOthersArePeersAndSayWhatTheyDoNotFit) {
    const auto peer = peer_candidate("turboquant_3bit_nc");
    ASSERT_NE(peer, nullptr);
    EXPECT_EQ(peer->name(), "turboquant_3bit_nc");
    EXPECT_DOUBLE_EQ(peer->bits(128), 102 * 8 / 256.0);
    const Status fits = peer->fits(96);
    ASSERT_EQ(fits.code(), Code::unsupported);
    EXPECT_NE(fits.error().message.find("turboquant_3bit_nc"), std::string::npos);
    EXPECT_TRUE(peer_candidate("kivi4")->fits(96).ok());
    EXPECT_FALSE((*codec_candidate("turboquant_3bit_nc"))->reference());
}

TEST(Candidates, OurCodecsGoThroughTheirPages) {
    const auto eight = codec_candidate("k8v8");
    const auto four = codec_candidate("k4v4:plain");
    ASSERT_TRUE(eight.ok() && four.ok());
    EXPECT_EQ((*four)->name(), "k4v4:plain");
    EXPECT_LT(error_of(**eight, 64), 1e-4);
    EXPECT_LT(error_of(**four, 64), 0.02);
    EXPECT_FALSE(codec_candidate("k9v9").ok());
    EXPECT_EQ(peer_candidate("k8v8"), nullptr);
}

TEST(Candidates, MeansAreTakenOffOfEveryFormat) {
    constexpr uint32_t kDims = 64, kTokens = 64;
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    // Rows whose mean is most of them; the one before RoPE is turned likewise for all of them.
    std::vector<float> turned(kDims * kTokens), rows(kDims * kTokens);
    for (size_t i = 0; i < rows.size(); ++i) {
        turned[i] = i % 3 == 0 ? 20.0f : -20.0f * static_cast<float>(i % kDims) / kDims;
        if (i >= kDims) turned[i] = turned[i - kDims];
        rows[i] = turned[i] + normal(random);
    }
    HeadMeans means{.k = {turned.begin(), turned.begin() + kDims}, .k_before = {}, .v = {}};
    means.v = means.k;
    const auto errors = [&](const std::string& name) {
        std::vector<float> k = rows, v = rows;
        const auto candidate = codec_candidate(name);
        EXPECT_TRUE(candidate.ok()) << name;
        EXPECT_EQ((*candidate)->name(), name);
        EXPECT_FALSE((*candidate)->reference());
        (*candidate)->apply({.k = k.data(),
                             .v = v.data(),
                             .tokens = kTokens,
                             .head_dim = kDims,
                             .means = &means,
                             .k_means = turned.data()});
        std::pair<double, double> sums;
        for (size_t i = 0; i < k.size(); ++i) {
            sums.first += std::pow(double{k[i]} - rows[i], 2);
            sums.second += std::pow(double{v[i]} - rows[i], 2);
        }
        return sums;
    };
    for (const char* stem : {"nvfp4", "nvfp4_4over6", "mxfp4", "turboquant_4bit_nc",
                             "tq4_mse_hadamard", "fp8_e4m3_token", "k4v4", "i4c"}) {
        const auto plain = errors(std::string(stem) + ":plain");
        for (const char* suffix : {":post", ":mean"}) {
            const auto less = errors(std::string(stem) + suffix);
            EXPECT_LT(less.first * 4, plain.first) << stem << suffix;
            EXPECT_LT(less.second * 4, plain.second) << stem << suffix;
        }
    }
}

TEST(Candidates, LayersCanBeSkipped) {
    const auto some = skipping_candidate(codec_candidate("k2v2").value(), {1, 3});
    EXPECT_EQ(some->name(), "k2v2, layers 1+3 exact");
    constexpr uint32_t kDims = 64, kTokens = 16;
    for (uint32_t layer = 0; layer < 4; ++layer) {
        std::vector<float> k(kDims * kTokens), v(k.size());
        for (size_t i = 0; i < k.size(); ++i) k[i] = v[i] = std::sin(static_cast<float>(i));
        const std::vector<float> before = k;
        some->apply({.k = k.data(),
                     .v = v.data(),
                     .tokens = kTokens,
                     .head_dim = kDims,
                     .layer = layer});
        EXPECT_EQ(k == before && v == before, layer % 2 == 1) << layer;
    }
    EXPECT_NEAR(some->bits(kDims), (2 + 0.125 + 16) / 2, 1e-9);
}

TEST(Candidates, NamesOfTheColdCodecSayItsBits) {
    EXPECT_EQ(ec_bits("ec:2.7")->base, 2.7);
    EXPECT_EQ(ec_bits("ec:2.7")->more, 0);
    EXPECT_EQ(ec_bits("ec:1.5+2")->more, 2);
    EXPECT_EQ(ec_bits("ec:8")->base, 8.0);
    EXPECT_TRUE(ec_bits("ec:2.7:alone")->alone);
    for (const char* other : {"ec", "ec:", "ec:0", "ec:13", "ec:2.7x", "ec:nan", "k4v4", "",
                              "ec:2+", "ec:2+9", "ec:+2", "ec:1+1+1"})
        EXPECT_FALSE(ec_bits(other).has_value()) << other;
}

TEST(Candidates, BitsOfTheLosslessCodecAreThoseOfItsPages) {
    const auto bx = codec_candidate("bx:plain");
    ASSERT_TRUE(bx.ok());
    EXPECT_GT((*bx)->bits(64), 16);       // the bound, before anything was coded
    EXPECT_LT(error_of(**bx, 64), 1e-5);  // bf16 itself
    EXPECT_NEAR((*bx)->bits(64), 10.75, 0.15);
}

TEST(Components, AreThoseOfAKnownCovariance) {
    constexpr size_t kN = 12;
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    // Orthonormal rows by Gram and Schmidt, and variances that fall.
    std::vector<double> rows(kN * kN), covariance(kN * kN);
    for (size_t i = 0; i < kN; ++i) {
        double* row = rows.data() + i * kN;
        for (size_t d = 0; d < kN; ++d) row[d] = normal(random);
        for (size_t j = 0; j <= i; ++j) {
            const double* other = rows.data() + j * kN;
            double dot = 0;
            for (size_t d = 0; d < kN; ++d) dot += row[d] * other[d];
            for (size_t d = 0; d < kN; ++d)
                row[d] = i == j ? row[d] / std::sqrt(dot) : row[d] - dot * other[d];
        }
    }
    for (size_t i = 0; i < kN; ++i)
        for (size_t a = 0; a < kN; ++a)
            for (size_t b = 0; b < kN; ++b)
                covariance[a * kN + b] +=
                    std::pow(0.5, static_cast<double>(i)) * rows[i * kN + a] * rows[i * kN + b];
    const Components found = principal_components(covariance, kN);
    for (size_t i = 0; i < kN; ++i) {
        EXPECT_NEAR(found.variances[i], std::pow(0.5, static_cast<double>(i)), 1e-7);
        double dot = 0;
        for (size_t d = 0; d < kN; ++d) dot += found.rows[i * kN + d] * rows[i * kN + d];
        EXPECT_NEAR(std::fabs(dot), 1, 1e-4) << i;
    }
}

// Sums over samples of inputs' products, as Ridge::extend takes those from `first` on.
std::vector<double> products_from(const std::vector<std::vector<double>>& samples, size_t first) {
    const size_t n = samples[0].size();
    std::vector<double> out((n - first) * n);
    for (const std::vector<double>& x : samples)
        for (size_t i = first; i < n; ++i)
            for (size_t j = 0; j < n; ++j) out[(i - first) * n + j] += x[i] * x[j];
    return out;
}

TEST(Ridge, FindsTheWeightsThatMadeTheOutputs) {
    constexpr size_t kInputs = 7, kOutputs = 3, kFirst = 4;
    std::mt19937 random(6);
    std::normal_distribution<double> normal;
    std::vector<double> weights(kInputs * kOutputs), products(kInputs * kOutputs);
    for (double& w : weights) w = normal(random);
    std::vector<std::vector<double>> samples, heads;
    for (int sample = 0; sample < 200; ++sample) {
        std::vector<double>& x = samples.emplace_back(kInputs);
        for (double& one : x) one = normal(random);
        heads.emplace_back(x.begin(), x.begin() + kFirst);
        for (size_t o = 0; o < kOutputs; ++o) {
            double y = 0;
            for (size_t i = 0; i < kInputs; ++i) y += x[i] * weights[i * kOutputs + o];
            for (size_t i = 0; i < kInputs; ++i) products[i * kOutputs + o] += x[i] * y;
        }
    }
    Ridge once(1e-9), twice(1e-9), strong(1e6);
    once.extend(products_from(samples, 0), kInputs);
    twice.extend(products_from(heads, 0), kFirst);
    twice.extend(products_from(samples, kFirst), kInputs - kFirst);
    strong.extend(products_from(samples, 0), kInputs);
    for (const Ridge* ridge : {&once, &twice}) {
        const std::vector<double> found = ridge->weights(products, kOutputs);
        for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], weights[i], 1e-6);
    }
    // Much of it draws weights to zero.
    EXPECT_LT(std::fabs(strong.weights(products, kOutputs)[0]), 1e-3);
}

TEST(Metric, RootSquaresToTheCost) {
    constexpr size_t kSize = 5;
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<double> cost(kSize * kSize);
    for (int sample = 0; sample < 3; ++sample) {  // two directions are free
        double x[kSize];
        for (double& one : x) one = normal(random);
        for (size_t i = 0; i < cost.size(); ++i) cost[i] += x[i / kSize] * x[i % kSize];
    }
    const Metric metric = metric_of(cost, kSize);
    double trace = 0;
    for (size_t i = 0; i < kSize; ++i) trace += cost[i * kSize + i];
    EXPECT_NEAR(metric.trace(), trace, 0.01 * trace);
    for (size_t a = 0; a < kSize; ++a)
        for (size_t b = 0; b < kSize; ++b) {
            double square = 0, one = 0;
            for (size_t i = 0; i < kSize; ++i) {
                square += metric.root[a * kSize + i] * metric.root[i * kSize + b];
                one += metric.root[a * kSize + i] * metric.inverse[i * kSize + b];
            }
            EXPECT_NEAR(square, cost[a * kSize + b], 0.01 * trace);
            EXPECT_NEAR(one, a == b ? 1 : 0, 1e-9);
        }
}

TEST(Schedules, BitsGoWhereTheModelIsSensitive) {
    const Sensitivity s{{100, 1, 1}, {1, 1, 0.01}};
    const Schedule schedule = allocate(s, 4.125, 64);
    EXPECT_NEAR(schedule.bits(64), 4.0 + 0.125, 1e-9);
    EXPECT_GT(schedule.k_bits[0], schedule.k_bits[1]);
    EXPECT_LT(schedule.v_bits[2], schedule.v_bits[1]);
    EXPECT_LE(allocate(s, 4.1, 64).bits(64), 4.1);
    EXPECT_EQ(allocate(s, 100, 64).bits(64), 8.125);
}

// Keys of later layers, and values of earlier ones, matter twice as much as those beside them.
std::pair<Sensitivity, KvLayout> steep_model(uint16_t layers) {
    Sensitivity s;
    KvGroup group{.kv_heads = 1, .head_dim = 64};
    for (uint16_t l = 0; l < layers; ++l) {
        s.k.push_back(std::pow(2.0, l));
        s.v.push_back(std::pow(2.0, layers - l));
        group.layers.push_back(l);
    }
    return {s, KvLayout{.groups = {group}}};
}

TEST(Schedules, JoinedOnesAreServedAsTheyAre) {
    constexpr uint16_t kLayers = 24;
    const auto [s, layout] = steep_model(kLayers);
    for (const double bits : {2.65, 3.35, 4.5, 5.95}) {
        const Schedule schedule = allocate_joined(s, bits, 64, layout);
        EXPECT_LE(schedule.bits(64), bits);
        EXPECT_GT(schedule.bits(64), bits - 0.5);
        codec::Sidecar sidecar;
        schedule.store(&sidecar);
        EXPECT_EQ(join_widths(sidecar.bits, layout), sidecar.bits);
        // Free ones would not be.
        allocate(s, bits, 64).store(&sidecar);
        EXPECT_NE(join_widths(sidecar.bits, layout), sidecar.bits) << bits;
    }
}

TEST(Schedules, LeaveSkippedLayersOutOfTheirBits) {
    constexpr uint16_t kLayers = 12;
    auto [s, layout] = steep_model(kLayers);
    const std::vector<uint32_t> skip = {0, 11};
    const Schedule schedule = allocate_joined(s, 4.5, 64, layout, skip);
    EXPECT_LE(schedule.coded_bits(64), 4.5);
    EXPECT_GT(schedule.coded_bits(64), 4.0);
    EXPECT_NEAR(schedule.bits(64), (10 * schedule.coded_bits(64) + 2 * 16) / 12, 1e-9);
    // What the others get does not depend on how much the skipped ones would like to have.
    s.k[0] = s.v[11] = 1e9;
    EXPECT_EQ(allocate_joined(s, 4.5, 64, layout, skip).k_bits, schedule.k_bits);
    const auto row = scheduled_candidate("auto:4.5", schedule);
    EXPECT_EQ(row->name(), "auto:4.5, layers 0+11 exact");
    EXPECT_EQ(row->bits(64), schedule.bits(64));
    std::vector<float> k(64 * 16, 0.37f), v(64 * 16, 0.73f);
    k[5] = 9;
    for (const uint32_t layer : {0u, 5u}) {
        std::vector<float> coded = k, values = v;
        row->apply({.k = coded.data(),
                    .v = values.data(),
                    .tokens = 16,
                    .head_dim = 64,
                    .layer = layer});
        EXPECT_EQ(coded == k, layer == 0) << layer;
    }
}

TEST(Schedules, ComeBackFromTheirFile) {
    const Schedule schedule{{6, 2, 3}, {4, 8, 5}, {1}};
    const auto back = parse_schedule(schedule_yaml(schedule.by_layer()), 3);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(Schedule::of(*back).k_bits, schedule.k_bits);
    EXPECT_EQ(Schedule::of(*back).v_bits, schedule.v_bits);
    EXPECT_EQ(Schedule::of(*back).skip_layers, schedule.skip_layers);
    EXPECT_EQ(scheduled_candidate("s", schedule)->schedule(), schedule.by_layer());
}

}  // namespace
}  // namespace quire::bench
