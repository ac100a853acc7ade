// What i2c and tq2.5 are told: the matrix after which equal bits cost least, and the order of
// dimensions.
#include "bench/eval/row_maps.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "bench/eval/testing.h"
#include "codec/codec_table.h"

namespace quire::bench {
namespace {

constexpr uint32_t kSeed = 23;

// The mean of products of rows whose dimensions are mixed and differ in size.
std::vector<double> some_covariance(size_t n, std::mt19937& random) {
    std::normal_distribution<double> normal;
    std::vector<double> mix(n * n), out(n * n);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j)
            mix[i * n + j] = normal(random) * std::exp2(-4.0 * static_cast<double>(j) / n);
    for (size_t a = 0; a < n; ++a)
        for (size_t b = 0; b < n; ++b)
            for (size_t j = 0; j < n; ++j) out[a * n + b] += mix[a * n + j] * mix[b * n + j];
    return out;
}

double trace(const std::vector<double>& a, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += a[i * n + i];
    return sum;
}

// The trace of m' a m for m [n][n] as RowMap has it: m[d][i].
double trace_turned(const std::vector<float>& m, const std::vector<double>& a, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i)
        for (size_t d = 0; d < n; ++d)
            for (size_t e = 0; e < n; ++e)
                sum += double{m[d * n + i]} * a[d * n + e] * double{m[e * n + i]};
    return sum;
}

TEST(RowMaps, TheMatrixHasItsInverseAndCostsLeast) {
    for (const size_t n : {32u, 48u}) {
        std::mt19937 random(kSeed);
        const std::vector<double> rows = some_covariance(n, random);
        const std::vector<double> cost = some_covariance(n, random);
        const TurnPair turn = best_turn(rows, cost, 1, n);
        for (size_t a = 0; a < n; ++a)
            for (size_t b = 0; b < n; ++b) {
                double sum = 0;
                for (size_t i = 0; i < n; ++i)
                    sum += double{turn.forward[a * n + i]} * double{turn.back[i * n + b]};
                ASSERT_NEAR(sum, a == b ? 1 : 0, 1e-3) << n;
            }
        // With bits alike for all components an error has a share of the row's energy in each.
        std::vector<float> back(n * n);
        for (size_t i = 0; i < n; ++i)
            for (size_t d = 0; d < n; ++d) back[d * n + i] = turn.back[i * n + d];
        const auto total = [&](const TurnPair& t, const std::vector<float>& b) {
            return trace_turned(t.forward, rows, n) * trace_turned(b, cost, n);
        };
        const double best = total(turn, back);
        EXPECT_LT(best, 0.6 * trace(rows, n) * trace(cost, n));
        // A little more or less of any dimension is no better, but for what regularising moves.
        for (size_t d = 0; d < n; d += 7)
            for (const float factor : {0.5f, 2.0f}) {
                TurnPair other = turn;
                std::vector<float> other_back = back;
                for (size_t i = 0; i < n; ++i) {
                    other.forward[d * n + i] *= factor;
                    other_back[d * n + i] /= factor;
                }
                EXPECT_GT(total(other, other_back), 0.99 * best) << d << " " << factor;
            }
    }
}

TEST(RowMaps, EveryHadamardBlockGetsLargeAndSmallComponents) {
    constexpr size_t kDims = 48;  // three blocks of 16
    std::mt19937 random(kSeed);
    const std::vector<double> rows = some_covariance(kDims, random);
    const TurnPair turn = best_turn(rows, some_covariance(kDims, random), 0.5, kDims);
    double energy[3] = {};
    for (size_t i = 0; i < kDims; ++i)
        for (size_t d = 0; d < kDims; ++d)
            for (size_t e = 0; e < kDims; ++e)
                energy[i / 16] += double{turn.forward[d * kDims + i]} * rows[d * kDims + e] *
                                  double{turn.forward[e * kDims + i]};
    for (const double one : energy) EXPECT_NEAR(one / energy[0], 1, 0.35);
}

// They are sorted in a space that queries weigh, so energies of neighbours may be the other way.
TEST(RowMaps, TheOrderHasTheLargestComponentsFirst) {
    for (const size_t n : {32u, 48u}) {
        std::mt19937 random(kSeed);
        const std::vector<double> rows = some_covariance(n, random);
        const TurnPair turn = best_turn(rows, some_covariance(n, random), 0.5, n);
        std::vector<double> quarters(4);
        size_t place = 0;
        for (const uint16_t i : turned_order(n)) {
            double energy = 0;
            for (size_t d = 0; d < n; ++d)
                for (size_t e = 0; e < n; ++e)
                    energy += double{turn.forward[d * n + i]} * rows[d * n + e] *
                              double{turn.forward[e * n + i]};
            quarters[place++ * 4 / n] += energy;
        }
        for (size_t q = 0; q + 1 < 4; ++q)
            EXPECT_GT(quarters[q], 1.5 * quarters[q + 1]) << n << ", quarter " << q;
    }
}

// From a model's pages into its sidecar and on to the candidates, which then do better.
TEST(RowMaps, CandidatesUseWhatTheSidecarHolds) {
    const auto tiny = testing::tiny_evaluation();
    const std::vector<TokenId> text = testing::random_tokens(512, kSeed);
    QueryEnergy energy(*tiny.model);
    QueryCovariance covariance(*tiny.model, &energy);
    const auto pages = pages_of(*tiny.model, text, 1, {}, &covariance);
    ASSERT_TRUE(pages.ok());
    const auto maps =
        learn_row_maps(*pages, 512, *tiny.means, metrics_of(*tiny.model, energy), covariance);
    // Energy is the mean of squares of all rows, the diagonal their sum over a quarter of them.
    const std::vector<double> seen = covariance.of(1, 1);
    double diagonal = 0, squares = 0;
    for (size_t d = 0; d < 32; ++d) diagonal += seen[d * 32 + d];
    for (const double e : energy.of(1, 1)) squares += e;
    EXPECT_NEAR(diagonal / (squares * 128 * 2), 1, 0.2);

    codec::Sidecar sidecar{.model = tiny.model->id(),
                           .layers = codec::sidecar_layers(tiny.model->kv_layout(16))};
    maps.matrices.store(&sidecar);
    maps.orders.store(&sidecar);
    for (const char* name : {"i2c:plain", "tq2.5:plain"}) {
        auto with = codec_candidate(name), without = codec_candidate(name);
        ASSERT_TRUE(with.ok() && without.ok());
        ASSERT_TRUE((*with)->use(sidecar).ok());
        std::vector<float> k(64 * 32), v(64 * 32);
        pages->read({0, 1, 1, 64, 128}, k.data(), v.data());
        const std::vector<float> exact = v;
        std::vector<float> other_k = k, other_v = v;
        const KvSpan span{.k = k.data(),
                          .v = v.data(),
                          .tokens = 64,
                          .head_dim = 32,
                          .layer = 1,
                          .head = 1,
                          .first = 64};
        KvSpan other = span;
        other.k = other_k.data();
        other.v = other_v.data();
        (*with)->apply(span);
        (*without)->apply(other);
        EXPECT_NE(v, other_v) << name;
        EXPECT_NE(v, exact) << name;
    }
    // A damaged section is refused, another codec's is not looked at.
    codec::set_section(&sidecar, {codec::i2c::kTag, {std::byte{1}}});
    EXPECT_EQ((*codec_candidate("i2c"))->use(sidecar).code(), Code::corrupt);
    EXPECT_TRUE((*codec_candidate("k4v4"))->use(sidecar).ok());
}

}  // namespace
}  // namespace quire::bench
