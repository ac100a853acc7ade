// turbo against what its papers claim, on average over fixed seeds; conformance_test.cc has what
// every codec keeps.
#include "codec/turbo/turbo.h"

#include <numeric>

#include <gtest/gtest.h>

#include "codec/testing/pages.h"

namespace quire::codec::turbo {
namespace {

constexpr RotationKind kKinds[] = {RotationKind::random, RotationKind::hadamard};

TEST(Turbo, RotationsKeepLengthsAndComeBack) {
    for (const RotationKind kind : kKinds)
        for (const uint32_t dims : {64u, 80u, 256u}) {
            std::mt19937_64 rng(dims);
            std::normal_distribution<double> normal;
            Batch batch{};
            for (uint32_t d = 0; d < dims; ++d)
                for (double& x : batch[d]) x = normal(rng);
            const Batch before = batch;
            rotate(kind, 3, dims, batch);
            double moved = 0;
            for (uint32_t r = 0; r < kBatchRows; ++r) {
                double in = 0, out = 0;
                for (uint32_t d = 0; d < dims; ++d) {
                    in += before[d][r] * before[d][r];
                    out += batch[d][r] * batch[d][r];
                    moved += std::fabs(before[d][r] - batch[d][r]);
                }
                EXPECT_NEAR(out / in, 1, 1e-12);
            }
            EXPECT_GT(moved, 100);
            unrotate(kind, 3, dims, batch);
            for (uint32_t d = 0; d < dims; ++d)
                for (uint32_t r = 0; r < kBatchRows; ++r)
                    ASSERT_NEAR(batch[d][r], before[d][r], 1e-12);
        }
}

// Whatever vector goes in, a coordinate over many seeds is one of a random point of the sphere.
TEST(Turbo, ARandomRotationPutsAnyVectorAnywhereOnTheSphere) {
    constexpr uint32_t kDims = 64;
    constexpr uint32_t kSeeds = 1500;
    // First, middle and last axis; a diagonal; two of them.
    double second[5] = {}, fourth[5] = {}, mean[5] = {};
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
        Batch batch{};
        batch[0][0] = batch[31][1] = batch[63][2] = 1;
        for (uint32_t d = 0; d < kDims; ++d) batch[d][3] = 0.125;
        batch[7][4] = batch[50][4] = std::sqrt(0.5);
        rotate(RotationKind::random, uint64_t{seed} * 7919 + 1, kDims, batch);
        for (int r = 0; r < 5; ++r)
            for (const uint32_t d : {0u, 20u, 63u}) {
                const double y = batch[d][r];
                mean[r] += y;
                second[r] += y * y * kDims;
                fourth[r] += y * y * y * y * kDims * (kDims + 2) / 3;
            }
    }
    for (int r = 0; r < 5; ++r) {
        EXPECT_NEAR(mean[r] / (3 * kSeeds), 0, 0.008) << r;
        EXPECT_NEAR(second[r] / (3 * kSeeds), 1, 0.08) << r;
        EXPECT_NEAR(fourth[r] / (3 * kSeeds), 1, 0.25) << r;
    }
}

struct Averages {
    double distortion = 0;  // of unit vectors
    double slope = 0;       // of coded inner products over true ones: 1 is unbiased
    double variance = 0;    // of their error, times head_dim
    double scaled = 0;      // the same when they are scaled to be unbiased
};

// Random unit vectors x with a partner y each, through the code and back.
Averages averages_of(const Side& side, uint32_t batches) {
    std::mt19937_64 rng(side.bits * 100 + side.head_dim);
    std::normal_distribution<float> normal;
    Averages averages;
    double products = 0, squares = 0, coded_squares = 0;
    std::vector<float> x(size_t{kBatchRows} * side.head_dim), out(x.size());
    std::vector<float> y(side.head_dim);
    std::vector<std::byte> coded(size_t{kBatchRows} * side.row_bytes());
    for (uint32_t batch = 0; batch < batches; ++batch) {
        for (float& number : x) number = normal(rng);
        encode_rows(side, batch, x.data(), side.head_dim, kBatchRows, coded.data());
        decode_rows(side, batch, coded.data(), kBatchRows, true, out.data(), side.head_dim);
        for (uint32_t r = 0; r < kBatchRows; ++r) {
            const float* in = x.data() + size_t{r} * side.head_dim;
            const float* back = out.data() + size_t{r} * side.head_dim;
            const double energy = std::inner_product(in, in + side.head_dim, in, 0.0);
            for (float& number : y) number = normal(rng) / std::sqrt(side.head_dim);
            for (uint32_t d = 0; d < side.head_dim; ++d)
                y[d] += 0.5f * in[d] / static_cast<float>(std::sqrt(energy));  // correlated
            double truth = 0, found = 0, error = 0;
            for (uint32_t d = 0; d < side.head_dim; ++d) {
                truth += double{in[d]} * y[d] / std::sqrt(energy);
                found += double{back[d]} * y[d] / std::sqrt(energy);
                error += (back[d] - in[d]) * (back[d] - in[d]) / energy;
            }
            averages.distortion += error;
            products += truth * found;
            squares += truth * truth;
            coded_squares += found * found;
            averages.variance += (found - truth) * (found - truth) * side.head_dim;
        }
    }
    averages.distortion /= batches * kBatchRows;
    averages.variance /= batches * kBatchRows;
    averages.slope = products / squares;
    averages.scaled = (coded_squares / (averages.slope * averages.slope) - squares) *
                      side.head_dim / (batches * kBatchRows);
    return averages;
}

// The distortion of the paper's table, and inner products short by just as much.
TEST(Turbo, MseHasItsDistortionAndItsBias) {
    for (const RotationKind kind : kKinds)
        for (const auto& [bits, distortion] : {std::pair{2u, 0.116}, {3u, 0.034}, {4u, 0.0093}}) {
            const Averages a = averages_of({128, bits, false, kind}, 40);
            EXPECT_NEAR(a.distortion / distortion, 1, 0.03) << bits;
            EXPECT_NEAR((1 - a.slope) / distortion, 1, 0.25) << bits;
        }
}

// The paper's bound of the variance, pi / 2 times what b - 1 bits lose, for y of length 1 (its
// table says 0.56, 0.18, 0.047); here the square of y's length is 1.25. The slope's bounds are
// three deviations of its average.
TEST(Turbo, ProductsAreUnbiasedAndTheirVarianceIsThePapers) {
    constexpr uint32_t kBatches = 60;
    for (const RotationKind kind : kKinds)
        for (const auto& [bits, variance] : {std::pair{2u, 0.569}, {3u, 0.182}, {4u, 0.0534}}) {
            const Averages a = averages_of({128, bits, true, kind}, kBatches);
            const double of_average = 1.25 * variance / 128 / (kBatches * kBatchRows * 0.258);
            EXPECT_NEAR(a.slope, 1, 3 * std::sqrt(of_average)) << bits;
            EXPECT_NEAR(a.variance / (1.25 * variance), 1, 0.15) << bits;
            // What it costs: MSE codes of the same bits with a scale that makes up for the bias.
            const Averages mse = averages_of({128, bits, false, kind}, kBatches);
            EXPECT_GT(a.variance, 3 * mse.scaled) << bits;
        }
}

TEST(Turbo, RowsThatAreNotThereAreZeroBytes) {
    for (const CodecSpec& spec : row_of(*find_codec("tq3_prod")).specs()) {
        testing::Rows rows({.head_dim = 64}, testing::Kind::normal, 1);
        rows.k[64 * 2 + 5] = NAN;
        for (int d = 0; d < 64; ++d) rows.k[64 * 4 + d] = 0;
        testing::Page page(spec, rows.g, 0);
        EXPECT_EQ(testing::encode(row_of(spec).ops()[0], spec, rows, page), 1u);
        const uint32_t bytes = k_side(spec, rows.g).row_bytes();
        for (const uint32_t token : {2u, 4u})
            for (uint32_t i = 0; i < bytes; ++i)
                ASSERT_EQ(page.data()[token * bytes + i], std::byte{0}) << codec_name(spec);
    }
}

}  // namespace
}  // namespace quire::codec::turbo
