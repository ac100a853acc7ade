// Attention against naive arithmetic, against the oracle bit by bit, and against itself when the
// same rows are computed in other chunks, batches and numbers of threads.
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/attention_fixture.h"

namespace quire::kernels {
namespace {

using testing::all_rows;
using testing::describe;
using testing::Geometry;
using testing::make_shape;
using testing::run_batch;
using testing::runnable_ops;
using testing::same_bits;
using testing::World;

constexpr uint64_t kSeed = 20260;

// Sanitizers make the micro-kernels fifty times slower.
#ifdef QUIRE_SANITIZED
constexpr int kLongTokens = 570;
constexpr int kThreadStep = 3;
#else
constexpr int kLongTokens = 1300;
constexpr int kThreadStep = 1;
#endif

// Plain softmax attention in double precision over the numbers that were stored.
double naive(const World& w, int position, int head, int d) {
    const AttnShape& s = w.shape;
    const int kv = head / (s.n_heads / s.n_kv_heads);
    const int first = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
    std::vector<double> scores;
    for (int key = first; key <= position; ++key) {
        double dot = 0;
        for (int i = 0; i < s.head_dim; ++i)
            dot += static_cast<double>(w.q[position * w.q_width() + head * s.head_dim + i]) *
                   w.k[key * w.kv_width() + kv * s.head_dim + i];
        dot *= s.scale;
        scores.push_back(s.softcap > 0 ? s.softcap * std::tanh(dot / s.softcap) : dot);
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0, out = 0;
    for (int key = first; key <= position; ++key) {
        const double p = std::exp(scores[key - first] - max);
        sum += p;
        out += p * w.v[key * w.kv_width() + kv * s.head_dim + d];
    }
    return out / sum;
}

TEST(Attention, OracleMatchesDoublePrecision) {
    for (const Geometry& g :
         {Geometry{}, Geometry{.n_heads = 4, .n_kv_heads = 1, .head_dim = 32, .window = 70},
          Geometry{.n_heads = 2, .n_kv_heads = 2, .head_dim = 48, .softcap = 3.0f}}) {
        SCOPED_TRACE(describe(g));
        const World w(g, 700, kSeed);
        w.store_all(attention_table()[0]);
        std::vector<float> out;
        std::mt19937 rng(kSeed);
        for (int position : {0, 1, 63, 64, 300, 511, 512, 699}) {
            run_batch(attention_table()[0], w.shape, {w.rows(position, 1, out)}, 1);
            const int head = static_cast<int>(rng() % g.n_heads);
            for (int d = 0; d < g.head_dim; ++d)
                ASSERT_NEAR(out[position * w.q_width() + head * g.head_dim + d],
                            naive(w, position, head, d), 2e-3)  // keys and values are 16 bit
                    << "position " << position << " head " << head << " dim " << d;
        }
    }
}

class EveryGeometry : public ::testing::TestWithParam<Geometry> {};

TEST_P(EveryGeometry, AllIsasAgreeWithTheOracleBitForBit) {
    const Geometry g = GetParam();
    SCOPED_TRACE(describe(g) + " seed " + std::to_string(kSeed));
    const World w(g, 600, kSeed);
    w.store_all(attention_table()[0]);
    // The oracle is slow: the ragged ends of tiles and partitions, and some rows between them.
    std::vector<float> expected;
    std::vector<AttnSequence> rows;
    for (int first : {0, 55, 123, 500, 590}) rows.push_back(w.rows(first, 10, expected));
    for (int i = 0; i < 3; ++i) run_batch(attention_table()[0], w.shape, {rows[i]}, 1);
    run_batch(attention_table()[0], w.shape, {rows[3], rows[4]}, 2);
    for (const AttentionOps* ops : runnable_ops()) {
        if (ops->isa == Isa::ref) continue;
        SCOPED_TRACE(ops->name);
        const std::vector<float> out = all_rows(*ops, w);
        for (const AttnSequence& r : rows) {
            const size_t begin = size_t(r.first_pos) * w.q_width();
            ASSERT_TRUE(same_bits(expected, out, begin, begin + size_t(r.n_rows) * w.q_width()));
        }
    }
}

TEST_P(EveryGeometry, ChunksDecodesThreadsAndBatchMatesChangeNoBit) {
    const Geometry g = GetParam();
    SCOPED_TRACE(describe(g) + " seed " + std::to_string(kSeed));
    std::mt19937 rng(kSeed);
    const World w(g, kLongTokens, kSeed + 1), mate(g, kLongTokens * 2 / 3, kSeed + 2);
    for (const AttentionOps* ops : runnable_ops()) {
        if (ops->isa == Isa::ref) continue;
        SCOPED_TRACE(ops->name);
        w.store_all(*ops);
        mate.store_all(*ops);
        const std::vector<float> expected = all_rows(*ops, w);
        for (int n_threads = 1; n_threads <= 4; n_threads += kThreadStep) {
            SCOPED_TRACE("threads " + std::to_string(n_threads));
            std::vector<float> out(expected.size(), NAN);
            std::vector<float> mate_out[2];  // apart: their rows may be the same
            // Chunks of random lengths, many of them single rows; now and then with others in the
            // batch.
            for (int first = 0; first < w.n_tokens();) {
                const int lengths[] = {1, 1, 2, 5, int(1 + rng() % 40), int(1 + rng() % 400)};
                const int n = std::min(lengths[rng() % 6], w.n_tokens() - first);
                std::vector<AttnSequence> batch = {w.rows(first, n, out)};
                for (int i = rng() % 3; i > 0; --i) {
                    const int m = 1 + rng() % 30;
                    const int at = rng() % (mate.n_tokens() - m);
                    batch.insert(batch.begin() + rng() % 2, mate.rows(at, m, mate_out[i - 1]));
                }
                run_batch(*ops, w.shape, batch, n_threads);
                first += n;
            }
            ASSERT_TRUE(same_bits(expected, out, 0, out.size()));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, EveryGeometry,
    ::testing::Values(
        Geometry{.n_heads = 9, .n_kv_heads = 3, .head_dim = 64},
        Geometry{.n_heads = 4, .n_kv_heads = 1, .head_dim = 256, .window = 512},
        Geometry{.n_heads = 4, .n_kv_heads = 1, .head_dim = 128, .element = Element::bf16},
        Geometry{
            .n_heads = 2, .n_kv_heads = 2, .head_dim = 80, .block_tokens = 32, .softcap = 5.0f},
        Geometry{.n_heads = 14, .n_kv_heads = 2, .head_dim = 16, .block_tokens = 48, .window = 33},
        Geometry{.n_heads = 8,
                 .n_kv_heads = 1,
                 .head_dim = 32,
                 .block_tokens = 64,
                 .element = Element::bf16,
                 .window = 1,
                 .softcap = 30.0f}));

TEST(Attention, ManyThreadsSplitOneLongRowWithoutChangingIt) {
    const World w({.n_heads = 3, .n_kv_heads = 1, .head_dim = 64}, 5000, kSeed);
    for (const AttentionOps* ops : runnable_ops()) {
        w.store_all(*ops);
        std::vector<float> expected, out;
        run_batch(*ops, w.shape, {w.rows(4999, 1, expected)}, 1);
        for (int n_threads : {2, 3, 8, 40}) {
            out.assign(expected.size(), NAN);
            run_batch(*ops, w.shape, {w.rows(4999, 1, out)}, n_threads);
            ASSERT_TRUE(same_bits(expected, out, size_t{4999} * w.q_width(), expected.size()))
                << ops->name << " threads " << n_threads;
        }
    }
}

// Split rows of some lengths beside short and long ones, in one batch.
TEST(Attention, SplitRowsBesideOthersAreThoseOfOneThread) {
    const World w({.n_heads = 6, .n_kv_heads = 3, .head_dim = 32}, 4000, kSeed);
    for (const AttentionOps* ops : runnable_ops()) {
        w.store_all(*ops);
        std::vector<float> expected;
        for (const int n_threads : {1, 2, 7, 40}) {
            std::vector<float> out(size_t{4000} * w.q_width());
            run_batch(*ops, w.shape,
                      {w.rows(3999, 1, out), w.rows(20, 1, out), w.rows(1500, 70, out),
                       w.rows(2600, 2, out), w.rows(1100, 1, out)},
                      n_threads);
            if (n_threads == 1) expected = out;
            ASSERT_TRUE(same_bits(expected, out, 0, out.size())) << ops->name << n_threads;
        }
    }
}

TEST(Attention, ThreadsMayRunOneAfterTheOther) {
    const World w({}, 3000, kSeed);
    for (const AttentionOps* ops : runnable_ops()) {
        w.store_all(*ops);
        std::vector<float> expected, out;
        run_batch(*ops, w.shape, {w.rows(2999, 1, expected)}, 1);
        const std::vector<AttnSequence> rows = {w.rows(2999, 1, out)};
        std::vector<float> workspace(ops->workspace_bytes(w.shape, rows, 3) / sizeof(float) + 16);
        std::atomic<int32_t> cursor = 0;
        void* at = workspace.data();
        size_t space = workspace.size() * sizeof(float);
        std::align(64, 64, at, space);
        std::vector<AttnCounter> finished(static_cast<size_t>(w.shape.n_kv_heads));
        const AttnBatch batch{
            w.shape, rows, {static_cast<std::byte*>(at), space}, &cursor, finished};
        for (int t : {2, 0, 1}) ops->run(batch, t, 3);
        ASSERT_TRUE(same_bits(expected, out, size_t{2999} * w.q_width(), expected.size()));
    }
}

TEST(Attention, SlabsBelowTheWindowMayBeAbsent) {
    const Geometry g{.n_heads = 3, .n_kv_heads = 1, .head_dim = 32, .window = 100};
    for (const AttentionOps* ops : runnable_ops()) {
        World w(g, 1100, kSeed);
        w.store_all(*ops);
        const std::vector<float> expected = all_rows(*ops, w);
        for (int first : {1099, 1070, 700}) {
            const int below = (first - g.window + 1) / g.block_tokens;
            World holes = w;
            holes.slabs = w.slabs;
            for (int b = 0; b < below; ++b) holes.slabs[b] = nullptr;
            std::vector<float> out;
            const int n = std::min(40, w.n_tokens() - first);
            run_batch(*ops, w.shape, {holes.rows(first, n, out)}, 2);
            const size_t begin = size_t(first) * w.q_width();
            ASSERT_TRUE(same_bits(expected, out, begin, begin + size_t(n) * w.q_width()))
                << ops->name << " first " << first;
        }
    }
}

// A token whose V overflowed to infinity must not reach rows that do not see it, though they share
// blocks of rows and tiles with rows that do. Blocks begin at even positions here: both kinds of
// ends are hit.
TEST(Attention, AnInfiniteValueReachesOnlyRowsThatSeeIt) {
    const Geometry g{.n_heads = 3, .n_kv_heads = 1, .head_dim = 32, .window = 60};
    for (const AttentionOps* ops : runnable_ops()) {
        for (int key : {150, 151}) {
            World w(g, 300, kSeed);
            w.store_all(*ops);
            const std::vector<float> clean = all_rows(*ops, w);
            for (int d = 0; d < 32; ++d) w.v[key * w.kv_width() + d] = 1e9f;
            w.store_all(*ops);
            const std::vector<float> out = all_rows(*ops, w);
            const size_t first = size_t(key) * w.q_width();
            const size_t last = size_t(key + g.window) * w.q_width();
            EXPECT_TRUE(same_bits(clean, out, 0, first)) << ops->name << " key " << key;
            EXPECT_FALSE(std::isfinite(out[first])) << ops->name << " key " << key;
            EXPECT_TRUE(same_bits(clean, out, last, out.size())) << ops->name << " key " << key;
        }
    }
}

TEST(Attention, ANanInTheQueryStaysInItsRow) {
    World w({}, 200, kSeed);
    for (const AttentionOps* ops : runnable_ops()) {
        w.store_all(*ops);
        w.q[100 * w.q_width()] = 0.5f;
        const std::vector<float> clean = all_rows(*ops, w);
        w.q[100 * w.q_width()] = std::bit_cast<float>(0x7fc01235);  // a payload in the low bits
        const std::vector<float> out = all_rows(*ops, w);
        EXPECT_TRUE(same_bits(clean, out, 0, size_t{100} * w.q_width()));
        EXPECT_TRUE(std::isnan(out[size_t{100} * w.q_width()]));
        EXPECT_TRUE(same_bits(clean, out, size_t{101} * w.q_width(), out.size()));
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
    World w({.n_heads = 3, .n_kv_heads = 1, .head_dim = 32}, 150, kSeed);
    for (float& x : w.q) x *= 1e4f;
    for (const AttentionOps* ops : runnable_ops()) {
        w.store_all(*ops);
        for (float x : all_rows(*ops, w)) ASSERT_TRUE(std::isfinite(x)) << ops->name;
    }
}

TEST(Attention, AnEmptyBatchIsNoWork) {
    const World w({}, 10, kSeed);
    std::vector<float> out;
    for (const AttentionOps* ops : runnable_ops()) {
        run_batch(*ops, w.shape, {}, 2);
        run_batch(*ops, w.shape, {w.rows(0, 0, out)}, 2);
    }
}

TEST(Attention, RefusesShapesItCannotRun) {
    const AttnShape good = make_shape({});
    for (const AttentionOps& ops : attention_table()) {
        EXPECT_EQ(ops.supports(good), nullptr);
        const auto refused = [&](auto change) {
            AttnShape bad = good;
            change(bad);
            return ops.supports(bad) != nullptr;
        };
        EXPECT_TRUE(refused([](AttnShape& s) { s.head_dim = 72; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.head_dim = 272; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.head_dim = 0; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.n_heads = 7; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.n_kv_heads = 0; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.block_tokens = 8; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.page_bytes -= 1; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.window = -1; }));
        EXPECT_TRUE(refused([](AttnShape& s) { s.softcap = NAN; }));
    }
}

TEST(Attention, TheTableStartsWithTheOracleAndTheBestRunsHere) {
    EXPECT_EQ(attention_table()[0].isa, Isa::ref);
    EXPECT_TRUE(best_attention().cpu_has_it());
}

}  // namespace
}  // namespace quire::kernels
