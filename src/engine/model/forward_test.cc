#include "engine/model/forward.h"

#include <cmath>
#include <cstring>
#include <random>

#include <ggml.h>
#include <gtest/gtest.h>

#include "engine/model/naive_forward.h"
#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using test::PlainPages;
using test::TinySpec;

std::vector<TokenId> random_tokens(size_t n, int32_t n_vocab, uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<TokenId> tokens(n);
    for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % static_cast<uint32_t>(n_vocab));
    return tokens;
}

std::unique_ptr<Forward> make_forward(const GgufModel& model, int32_t n_threads) {
    auto f = Forward::create(model, {.n_threads = n_threads, .max_rows = 512});
    EXPECT_TRUE(f.ok()) << f.error().message;
    return std::move(f).value();
}

std::vector<float> logits_of(Forward* f, const StepSequence& s) {
    auto r = f->step({&s, 1});
    EXPECT_TRUE(r.ok()) << r.error().message;
    return {r->logits.begin(), r->logits.end()};
}

TinySpec spec_of(const std::string& family, int32_t type) {
    TinySpec spec{.family = family, .matrix_type = type};
    if (family == "gemma3") spec.n_layers = 8;  // layer 5 is a full one
    if (type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q6_K || type == GGML_TYPE_Q5_K ||
        type == GGML_TYPE_Q3_K) {
        spec.n_embd = 256;
        spec.head_dim = 64;
        spec.n_ff = 512;
    }
    return spec;
}

class ForwardFamilies : public testing::TestWithParam<const char*> {};

TEST_P(ForwardFamilies, AgreesWithPlainArithmetic) {
    const test::TinyModel tiny = test::write_tiny_model(spec_of(GetParam(), GGML_TYPE_F32));
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto forward = make_forward(**model, 2);
    const auto tokens = random_tokens(70, tiny.spec.n_vocab, 3);
    PlainPages pages(forward->layout(), 80);
    const StepSequence s = pages.sequence(tokens, 0, 64);
    const std::vector<float> got = logits_of(forward.get(), s);
    const std::vector<std::vector<float>> want = test::naive_logits(tiny, tokens);
    ASSERT_EQ(got.size(), 64u * static_cast<size_t>(tiny.spec.n_vocab));
    for (size_t r = 0; r < 64; ++r)
        for (size_t i = 0; i < want[r + 6].size(); ++i)
            ASSERT_NEAR(got[r * want[r + 6].size() + i], want[r + 6][i], 4e-3)
                << "row " << r << " token " << i;
}
INSTANTIATE_TEST_SUITE_P(All, ForwardFamilies,
                         testing::Values("llama", "qwen2", "qwen3", "gemma3"));

struct TypeCase {
    const char* family;
    int32_t type;
};
class ForwardTypes : public testing::TestWithParam<TypeCase> {};

// The promise of forward.h: cutting a prompt anyhow, among any companions, with any number of
// threads, gives the same pages and the same logits, bit for bit.
TEST_P(ForwardTypes, BitsDoNotDependOnCutsCompanionsOrThreads) {
    const test::TinyModel tiny =
        test::write_tiny_model(spec_of(GetParam().family, GetParam().type));
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto prompt = random_tokens(90, tiny.spec.n_vocab, 5);
    const auto other = random_tokens(300, tiny.spec.n_vocab, 6);

    auto whole = make_forward(**model, 1);
    PlainPages truth(whole->layout(), 100);
    const auto want = logits_of(whole.get(), truth.sequence(prompt, 0, 1));

    auto two = make_forward(**model, 2);
    for (uint32_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Forward* forward = seed % 3 == 0 ? two.get() : whole.get();
        std::mt19937 rng(seed);
        PlainPages pages(forward->layout(), 100);
        PlainPages companion(forward->layout(), 310);
        std::vector<float> got;
        int32_t other_pos = 0;
        for (size_t pos = 0; pos < prompt.size();) {
            const size_t most = seed == 1 ? 4 : 40;
            const size_t n = std::min<size_t>(1 + rng() % most, prompt.size() - pos);
            std::vector<StepSequence> step;
            if (rng() % 2 == 0 && other_pos < 250) {
                const size_t m = 1 + rng() % 9;
                step.push_back(companion.sequence(
                    std::span(other).subspan(static_cast<size_t>(other_pos), m), other_pos, 1));
                other_pos += static_cast<int32_t>(m);
            }
            step.push_back(
                pages.sequence(std::span(prompt).subspan(pos, n), static_cast<int32_t>(pos), 1));
            auto r = forward->step(step);
            ASSERT_TRUE(r.ok()) << r.error().message;
            pos += n;
            const auto vocab = static_cast<size_t>(tiny.spec.n_vocab);
            got.assign(r->logits.end() - static_cast<ptrdiff_t>(vocab), r->logits.end());
        }
        ASSERT_EQ(memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
        ASSERT_EQ(pages.bytes(), truth.bytes());
    }
}
INSTANTIATE_TEST_SUITE_P(
    All, ForwardTypes,
    testing::Values(TypeCase{"llama", GGML_TYPE_F32}, TypeCase{"llama", GGML_TYPE_F16},
                    TypeCase{"qwen2", GGML_TYPE_Q8_0}, TypeCase{"qwen3", GGML_TYPE_Q4_K},
                    TypeCase{"gemma3", GGML_TYPE_Q5_0}, TypeCase{"gemma3", GGML_TYPE_Q6_K},
                    TypeCase{"llama", GGML_TYPE_Q5_K}, TypeCase{"llama", GGML_TYPE_Q3_K},
                    TypeCase{"llama", GGML_TYPE_IQ4_NL}, TypeCase{"llama", GGML_TYPE_Q4_1}));

class CountingGate final : public LayerGate {
 public:
    explicit CountingGate(size_t refuse) : refuse_(refuse) {}
    bool wait_layer(uint32_t layer, size_t sequence) override {
        calls.emplace_back(layer, sequence);
        return !(sequence == refuse_ && layer >= 1);
    }
    std::vector<std::pair<uint32_t, size_t>> calls;

 private:
    size_t refuse_;
};

TEST(Forward, GateIsAskedPerLayerAndDropsOneSequenceOnly) {
    const test::TinyModel tiny = test::write_tiny_model({});
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto forward = make_forward(**model, 2);
    const auto a = random_tokens(20, tiny.spec.n_vocab, 7);
    const auto b = random_tokens(33, tiny.spec.n_vocab, 8);
    PlainPages alone(forward->layout(), 40);
    const auto want = logits_of(forward.get(), alone.sequence(b, 0, 1));

    PlainPages pages_a(forward->layout(), 40);
    PlainPages pages_b(forward->layout(), 40);
    const StepSequence step[] = {pages_a.sequence(a, 0, 1), pages_b.sequence(b, 0, 1)};
    CountingGate gate(0);
    auto r = forward->step(step, &gate);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->dropped, std::vector<size_t>{0});
    EXPECT_EQ(gate.calls.size(), 5u);  // layer 0: both; layer 1: both; layer 2: the second
    const float* row = r->logits.data() + tiny.spec.n_vocab;
    EXPECT_EQ(memcmp(row, want.data(), want.size() * sizeof(float)), 0);
    EXPECT_EQ(pages_b.bytes(), alone.bytes());
}

class QuerySums final : public QueryObserver {
 public:
    void see(uint32_t layer, const kernels::AttnShape& shape,
             std::span<const kernels::AttnSequence> sequences) override {
        EXPECT_EQ(layer, rows.size());
        rows.push_back(0);
        sums.push_back(0);
        for (const kernels::AttnSequence& s : sequences)
            for (int32_t r = 0; r < s.n_rows; ++r, ++rows.back())
                for (int32_t i = 0; i < shape.n_heads * shape.head_dim; ++i)
                    sums.back() += std::fabs(double{s.q[r * s.q_row_stride + i]});
    }
    std::vector<int32_t> rows;  // by layer
    std::vector<double> sums;
};

TEST(Forward, QueriesAreSeenOncePerLayerAndChangeNothing) {
    const test::TinyModel tiny = test::write_tiny_model({});
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto tokens = random_tokens(40, tiny.spec.n_vocab, 10);
    auto plain = make_forward(**model, 2);
    PlainPages unseen(plain->layout(), 40);
    const auto want = logits_of(plain.get(), unseen.sequence(tokens, 0, 3));
    std::vector<double> sums[2];
    for (const int32_t threads : {1, 2}) {
        QuerySums queries;
        auto forward = Forward::create(**model, {.n_threads = threads, .queries = &queries});
        ASSERT_TRUE(forward.ok());
        PlainPages pages((*forward)->layout(), 40);
        EXPECT_EQ(logits_of(forward->get(), pages.sequence(tokens, 0, 3)), want);
        EXPECT_EQ(queries.rows, (std::vector<int32_t>{40, 40, 3}));
        for (const double sum : queries.sums) EXPECT_GT(sum, 0);
        sums[threads - 1] = queries.sums;
    }
    EXPECT_EQ(sums[0], sums[1]);
}

TEST(Forward, StepsWithoutLogitsStoreTheSamePages) {
    const test::TinyModel tiny = test::write_tiny_model({});
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok());
    auto forward = make_forward(**model, 1);
    const auto tokens = random_tokens(40, tiny.spec.n_vocab, 9);
    PlainPages with(forward->layout(), 40);
    PlainPages without(forward->layout(), 40);
    EXPECT_EQ(logits_of(forward.get(), with.sequence(tokens, 0, 3)).size(), 240u);
    EXPECT_TRUE(logits_of(forward.get(), without.sequence(tokens, 0, 0)).empty());
    EXPECT_EQ(with.bytes(), without.bytes());
}

class RememberingProbe final : public AttentionProbe {
 public:
    void attended(uint32_t layer, std::span<const float> out) override {
        layers.push_back(layer);
        outputs.emplace_back(out.begin(), out.end());
    }
    std::vector<uint32_t> layers;
    std::vector<std::vector<float>> outputs;
};

TEST(Forward, ProbeSeesEachLayersAttentionAndChangesNothing) {
    const test::TinyModel tiny = test::write_tiny_model({});
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok());
    RememberingProbe probe;
    auto probed = Forward::create(**model, {.n_threads = 2, .probe = &probe});
    ASSERT_TRUE(probed.ok());
    auto forward = make_forward(**model, 2);
    const auto a = random_tokens(40, tiny.spec.n_vocab, 10);
    const auto b = random_tokens(20, tiny.spec.n_vocab, 11);
    PlainPages pages_a(forward->layout(), 40), pages_b(forward->layout(), 40);
    const StepSequence both[] = {pages_a.sequence(a, 0, 3), pages_b.sequence(b, 0, 1)};
    const auto r = (*probed)->step(both);
    ASSERT_TRUE(r.ok());
    const auto width = static_cast<size_t>(tiny.spec.n_heads * tiny.spec.head_dim);
    EXPECT_EQ(probe.layers, (std::vector<uint32_t>{0, 1, 2}));
    EXPECT_EQ(probe.outputs[0].size(), 60 * width);
    EXPECT_EQ(probe.outputs[1].size(), 60 * width);
    EXPECT_EQ(probe.outputs[2].size(), 4 * width);  // rows with logits
    // The first token attends to itself alone: every head's output is its value.
    for (int32_t head = 0; head < tiny.spec.n_heads; ++head) {
        const int32_t kv_head = head * tiny.spec.n_kv_heads / tiny.spec.n_heads;
        for (int32_t d = 0; d < tiny.spec.head_dim; ++d)
            ASSERT_FLOAT_EQ(probe.outputs[1][static_cast<size_t>(head * tiny.spec.head_dim + d)],
                            pages_a.v(0, 1, kv_head, 0, d));
    }
    const auto got = std::vector<float>(r->logits.begin(), r->logits.end());
    PlainPages alone(forward->layout(), 40);
    const auto want = logits_of(forward.get(), alone.sequence(a, 0, 3));
    EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + static_cast<ptrdiff_t>(want.size())),
              want);
    ASSERT_TRUE((*probed)->step({both, 1}).ok());  // the same graph's probe again
    EXPECT_EQ(probe.layers.size(), 6u);
}

TEST(Forward, RefusesStepsOverItsBounds) {
    const test::TinyModel tiny = test::write_tiny_model({});
    auto model = GgufModel::open(tiny.path);
    ASSERT_TRUE(model.ok());
    auto forward = Forward::create(
        **model, {.n_threads = 1, .max_rows = 8, .max_sequences = 1, .max_logit_rows = 2});
    ASSERT_TRUE(forward.ok());
    PlainPages pages((*forward)->layout(), 40);
    const std::vector<TokenId> nine(9, 1);
    const std::vector<TokenId> alien = {tiny.spec.n_vocab};
    const TokenSpan two = std::span(nine).first(2);
    const StepSequence both[] = {pages.sequence(two, 0, 1), pages.sequence(two, 0, 1)};
    const StepSequence cases[] = {pages.sequence(nine, 0, 1), pages.sequence(alien, 0, 1),
                                  pages.sequence({}, 0, 0),   pages.sequence(two, 0, 3),
                                  pages.sequence(two, -1, 1), pages.sequence(two, 2047, 1)};
    for (const StepSequence& s : cases)
        EXPECT_EQ((*forward)->step({&s, 1}).code(), Code::invalid) << &s - cases;
    EXPECT_EQ((*forward)->step(both).code(), Code::invalid);
    EXPECT_EQ((*forward)->step({}).code(), Code::invalid);
    const StepSequence good = pages.sequence(two, 0, 2);
    EXPECT_TRUE((*forward)->step({&good, 1}).ok());
}

}  // namespace
}  // namespace quire
