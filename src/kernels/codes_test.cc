// Attention over compressed pages: against naive arithmetic over what the codec reconstructs,
// against the oracle bit by bit, and against itself when rows come in other chunks and threads.
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/codes_fixture.h"

namespace quire::kernels {
namespace {

using testing::all_rows;
using testing::CodedWorld;
using testing::Codes;
using testing::describe;
using testing::Geometry;
using testing::run_batch;
using testing::runnable_ops;
using testing::same_bits;

constexpr uint64_t kSeed = 40270;

#ifdef QUIRE_SANITIZED
constexpr int kLongTokens = 570;
constexpr int kThreadStep = 3;
#else
constexpr int kLongTokens = 1200;
constexpr int kThreadStep = 2;
#endif

std::string describe(const Geometry& g, const Codes& c) {
    return describe(g) + " k" + std::to_string(c.k_bits) + "v" + std::to_string(c.v_bits) +
           " sinks " + std::to_string(c.sink_tokens) + " span " + std::to_string(c.span_tokens) +
           " pairs " + std::to_string(c.pairs) + " seed " + std::to_string(kSeed);
}

// Softmax attention in double precision, in the space of the model, over what a position sees.
std::vector<double> naive(const CodedWorld& w, int position, int head) {
    const AttnShape& s = w.shape;
    const int kv = head / (s.n_heads / s.n_kv_heads);
    const int first = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
    std::vector<double> scores, out(s.head_dim);
    double max = -INFINITY, sum = 0;
    for (int key = first; key <= position; ++key) {
        const std::vector<float> k = w.seen(true, position, key, kv);
        double dot = 0;
        for (int i = 0; i < s.head_dim; ++i)
            dot += static_cast<double>(w.q[position * w.q_width() + head * s.head_dim + i]) * k[i];
        dot *= s.scale;
        scores.push_back(s.softcap > 0 ? s.softcap * std::tanh(dot / s.softcap) : dot);
        max = std::max(max, scores.back());
    }
    for (int key = first; key <= position; ++key) {
        const double p = std::exp(scores[key - first] - max);
        const std::vector<float> v = w.seen(false, position, key, kv);
        sum += p;
        for (int d = 0; d < s.head_dim; ++d) out[d] += p * v[d];
    }
    for (double& x : out) x /= sum;
    return out;
}

TEST(CodedAttention, OracleMatchesDoublePrecisionOverReconstructedNumbers) {
    const Geometry geometries[] = {{.n_heads = 3, .n_kv_heads = 1},
                                   {.n_heads = 2, .n_kv_heads = 2, .head_dim = 80, .softcap = 3.0f},
                                   {.n_heads = 2, .n_kv_heads = 1, .head_dim = 32, .window = 90}};
    const Codes codes[] = {{8, 8},     {6, 4, 16},       {3, 7, 32, 128},
                           {5, 2, 80}, {6, 4, 0, 64, 4}, {4, 3, 32, 128, 16}};
    for (const Geometry& g : geometries) {
        for (const Codes& c : codes) {
            SCOPED_TRACE(describe(g, c));
            const CodedWorld w(g, c, 300, kSeed);
            std::vector<float> out;
            for (int position : {0, 63, 64, 131, 299}) {
                run_batch(attention_table()[0], w.shape, {w.rows(position, 1, out)}, 1);
                const std::vector<double> expected = naive(w, position, 1);
                for (int d = 0; d < g.head_dim; ++d)
                    ASSERT_NEAR(out[position * w.q_width() + g.head_dim + d], expected[d], 3e-3)
                        << "position " << position << " dim " << d;
            }
        }
    }
}

TEST(CodedAttention, EveryPairOfWidthsAgreesWithTheOracleBitForBit) {
    const Geometry g{.n_heads = 3, .n_kv_heads = 1, .head_dim = 64};
    for (int k_bits = 2; k_bits <= 8; ++k_bits) {
        for (int v_bits = 2; v_bits <= 8; ++v_bits) {
            const Codes c{k_bits, v_bits, 16, 64};
            SCOPED_TRACE(describe(g, c));
            const CodedWorld w(g, c, 210, kSeed + static_cast<uint64_t>(8 * k_bits + v_bits));
            std::vector<float> expected;
            const std::vector<AttnSequence> rows = {w.rows(63, 2, expected),
                                                    w.rows(209, 1, expected)};
            run_batch(attention_table()[0], w.shape, rows, 1);
            for (const AttentionOps* ops : runnable_ops()) {
                if (ops->isa == Isa::ref) continue;
                SCOPED_TRACE(ops->name);
                std::vector<float> decoded;
                const std::vector<float> prefilled = all_rows(*ops, w);
                for (const AttnSequence& r : rows) {
                    for (int i = 0; i < r.n_rows; ++i)
                        run_batch(*ops, w.shape, {w.rows(r.first_pos + i, 1, decoded)}, 1);
                    const size_t begin = static_cast<size_t>(r.first_pos) * w.q_width();
                    const size_t end = begin + static_cast<size_t>(r.n_rows) * w.q_width();
                    ASSERT_TRUE(same_bits(expected, prefilled, begin, end)) << "prefill";
                    ASSERT_TRUE(same_bits(expected, decoded, begin, end)) << "decode";
                }
            }
        }
    }
}

struct Case {
    Geometry geometry;
    Codes codes;
};

class EveryCodedGeometry : public ::testing::TestWithParam<Case> {};

TEST_P(EveryCodedGeometry, AllIsasAgreeWithTheOracleBitForBit) {
    const auto& [g, c] = GetParam();
    SCOPED_TRACE(describe(g, c));
    const CodedWorld w(g, c, 600, kSeed);
    std::vector<float> expected;
    std::vector<AttnSequence> rows;
    for (int first : {0, 61, 126, 510, 597}) rows.push_back(w.rows(first, 3, expected));
    run_batch(attention_table()[0], w.shape, rows, 2);
    for (const AttentionOps* ops : runnable_ops()) {
        if (ops->isa == Isa::ref) continue;
        SCOPED_TRACE(ops->name);
        const std::vector<float> out = all_rows(*ops, w);
        for (const AttnSequence& r : rows) {
            const size_t begin = static_cast<size_t>(r.first_pos) * w.q_width();
            const size_t end = begin + static_cast<size_t>(r.n_rows) * w.q_width();
            ASSERT_TRUE(same_bits(expected, out, begin, end)) << "rows from " << r.first_pos;
        }
    }
}

TEST_P(EveryCodedGeometry, ChunksDecodesThreadsAndBatchMatesChangeNoBit) {
    const auto& [g, c] = GetParam();
    SCOPED_TRACE(describe(g, c));
    std::mt19937 rng(kSeed);
    const CodedWorld w(g, c, kLongTokens, kSeed + 1), mate(g, c, kLongTokens / 3, kSeed + 2);
    for (const AttentionOps* ops : runnable_ops()) {
        if (ops->isa == Isa::ref) continue;
        SCOPED_TRACE(ops->name);
        const std::vector<float> expected = all_rows(*ops, w);
        for (int n_threads = 1; n_threads <= 4; n_threads += kThreadStep) {
            SCOPED_TRACE("threads " + std::to_string(n_threads));
            std::vector<float> out(expected.size(), NAN);
            std::vector<float> mate_out[2];  // apart: their rows may be the same
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

// Tables hold exactly what the rows of a call may read; with a window the rest is absent too.
TEST_P(EveryCodedGeometry, SlabsThatNoRowReadsMayBeAbsent) {
    const auto& [g, c] = GetParam();
    SCOPED_TRACE(describe(g, c));
    const CodedWorld w(g, c, 700, kSeed + 3);
    for (const AttentionOps* ops : runnable_ops()) {
        if (ops->isa == Isa::ref) continue;
        const std::vector<float> expected = all_rows(*ops, w);
        for (const auto& [first, n] : {std::pair{699, 1}, {640, 60}, {500, 100}, {60, 9}}) {
            std::vector<std::byte*> exact(w.slabs.size()), coded(w.coded_slabs.size());
            for (int p = first; p < first + n; ++p) {
                for (int key = g.window > 0 ? std::max(0, p - g.window + 1) : 0; key <= p; ++key) {
                    const int block = key / g.block_tokens;
                    if (key >= c.sink_tokens && key < p / c.span_tokens * c.span_tokens)
                        coded[block] = w.coded_slabs[block];
                    else
                        exact[block] = w.slabs[block];
                }
            }
            std::vector<float> out;
            AttnSequence s = w.rows(first, n, out);
            s.slabs = exact.data();
            s.coded_slabs = coded.data();
            run_batch(*ops, w.shape, {s}, 2);
            const size_t begin = static_cast<size_t>(first) * w.q_width();
            const size_t end = begin + static_cast<size_t>(n) * w.q_width();
            ASSERT_TRUE(same_bits(expected, out, begin, end)) << ops->name << " first " << first;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, EveryCodedGeometry,
    ::testing::Values(
        Case{{.n_heads = 9, .n_kv_heads = 3, .head_dim = 64}, {6, 4, 16, 64}},
        Case{{.n_heads = 4, .n_kv_heads = 1, .head_dim = 256, .window = 512}, {3, 2, 64, 128}},
        Case{{.n_heads = 4, .n_kv_heads = 1, .head_dim = 128, .element = Element::bf16},
             {4, 3, 0, 64}},
        Case{{.n_heads = 2, .n_kv_heads = 2, .head_dim = 80, .block_tokens = 32, .softcap = 5.0f},
             {8, 8, 96, 64}},
        Case{{.n_heads = 14, .n_kv_heads = 2, .head_dim = 16, .block_tokens = 48, .window = 33},
             {5, 7, 48, 192}},
        Case{{.n_heads = 8, .n_kv_heads = 1, .head_dim = 64, .block_tokens = 64, .window = 150},
             {2, 3, 64, 64}},
        Case{{.n_heads = 9, .n_kv_heads = 3, .head_dim = 64}, {6, 4, 16, 64, 8}},
        Case{{.n_heads = 4, .n_kv_heads = 1, .head_dim = 256, .window = 512}, {4, 2, 0, 64, 128}},
        Case{{.n_heads = 4, .n_kv_heads = 2, .head_dim = 80, .block_tokens = 32, .softcap = 5.0f},
             {8, 8, 96, 64, 3}}));

// A row that a token's infinite V does not reach must not notice it, across the border of a span.
TEST(CodedAttention, AnInfiniteExactValueReachesOnlyRowsThatReadItExact) {
    const Geometry g{.n_heads = 3, .n_kv_heads = 1, .head_dim = 64};
    for (const AttentionOps* ops : runnable_ops()) {
        const CodedWorld w(g, {4, 4, 0, 64}, 300, kSeed);
        const std::vector<float> clean = all_rows(*ops, w);
        const int key = 150;
        auto* page = reinterpret_cast<uint16_t*>(w.slabs[key / 16] + w.shape.layer_offset);
        page[(16 + key % 16) * 64] = 0x7c00;
        const std::vector<float> out = all_rows(*ops, w);
        const size_t width = w.q_width();
        EXPECT_TRUE(same_bits(clean, out, 0, key * width)) << ops->name;
        EXPECT_FALSE(std::isfinite(out[key * width])) << ops->name;
        EXPECT_TRUE(same_bits(clean, out, 192 * width, out.size())) << ops->name;
    }
}

TEST(CodedAttention, RefusesShapesItCannotRun) {
    const CodedWorld w({}, {4, 4, 16, 64}, 64, kSeed);
    for (const AttentionOps& ops : attention_table()) {
        EXPECT_EQ(ops.supports(w.shape), nullptr);
        const auto refused = [&](auto change) {
            AttnShape bad = w.shape;
            change(bad.codes);
            return ops.supports(bad) != nullptr;
        };
        EXPECT_TRUE(refused([](AttnCodes& c) { c.k_bits = 9; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.v_bits = 1; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.k_bits = 0; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.sink_tokens = 8; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.sink_tokens = -16; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.span_tokens = 0; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.span_tokens = 80; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.page_bytes = 64; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.turns.n_pairs = 1; }));
        EXPECT_TRUE(refused([](AttnCodes& c) { c.turns.n_pairs = -1; }));
    }
    const CodedWorld turned({}, {.pairs = 2}, 64, kSeed);
    for (const AttentionOps& ops : attention_table()) {
        EXPECT_EQ(ops.supports(turned.shape), nullptr);
        AttnShape bad = turned.shape;
        bad.codes.turns.n_angles = 4;  // the pairs' angles are 3 and 4
        EXPECT_NE(ops.supports(bad), nullptr);
    }
}

}  // namespace
}  // namespace quire::kernels
