// The promise of forward.h on the real models, where they are on this machine.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "engine/model/forward.h"
#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using test::PlainPages;

constexpr int32_t kPrompt = 300;

std::vector<TokenId> prompt_of(uint32_t seed, size_t n) {
    std::mt19937 rng(seed);
    std::vector<TokenId> tokens(n);
    for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % 40000);
    return tokens;
}

class RealModel : public testing::TestWithParam<size_t> {
 protected:
    void SetUp() override {
        const auto models = test::real_models();
        if (GetParam() >= models.size()) GTEST_SKIP() << "run tools/models fetch all first";
        auto m = GgufModel::open(models[GetParam()]);
        ASSERT_TRUE(m.ok()) << m.error().message;
        model_ = std::move(m).value();
    }
    std::unique_ptr<Forward> forward(int32_t n_threads) {
        auto f = Forward::create(*model_, {.n_threads = n_threads, .max_rows = 512});
        EXPECT_TRUE(f.ok());
        return std::move(f).value();
    }
    std::unique_ptr<GgufModel> model_;
};

// Computes tokens [from, end) in steps of random sizes, now and then beside decodes of others.
std::vector<float> run_randomly(Forward* f, PlainPages* pages, TokenSpan tokens, int32_t from,
                                uint32_t seed) {
    std::mt19937 rng(seed);
    const auto mate = prompt_of(99, 64);
    PlainPages mate_pages(f->layout(), 80);
    std::vector<float> last;
    int32_t mate_pos = 0;
    for (auto pos = static_cast<size_t>(from); pos < tokens.size();) {
        const size_t choices[] = {1, 2 + rng() % 6, 8 + rng() % 9, 17 + rng() % 100};
        const size_t n = std::min(choices[rng() % 4], tokens.size() - pos);
        std::vector<StepSequence> step;
        if (rng() % 3 == 0 && mate_pos < 60) {
            const auto at = static_cast<size_t>(mate_pos);
            step.push_back(mate_pages.sequence(std::span(mate).subspan(at, 1), mate_pos, 1));
            ++mate_pos;
        }
        step.push_back(pages->sequence(tokens.subspan(pos, n), static_cast<int32_t>(pos), 1));
        auto r = f->step(step);
        EXPECT_TRUE(r.ok());
        pos += n;
        const auto vocab = r->logits.size() / step.size();
        last.assign(r->logits.end() - static_cast<ptrdiff_t>(vocab), r->logits.end());
    }
    return last;
}

TEST_P(RealModel, BitsDoNotDependOnCutsCompanionsOrThreads) {
    const auto tokens = prompt_of(1, kPrompt);
    // With two threads in few large steps, with one in many small ones: threads that spin at
    // barriers are slow where other programs want the cores too.
    auto two = forward(2);
    PlainPages truth(two->layout(), kPrompt);
    const StepSequence whole = truth.sequence(tokens, 0, 1);
    auto r = two->step({&whole, 1});
    ASSERT_TRUE(r.ok());
    const std::vector<float> want(r->logits.begin(), r->logits.end());
    two.reset();
    auto one = forward(1);
    for (uint32_t seed = 1; seed <= 2; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Forward* f = one.get();
        PlainPages pages(f->layout(), kPrompt);
        const auto got = run_randomly(f, &pages, tokens, 0, seed);
        EXPECT_EQ(memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
        EXPECT_TRUE(pages.bytes() == truth.bytes());
        // As after a cache hit: the first blocks are there, the rest is computed again.
        const auto again =
            run_randomly(f, &pages, tokens, 16 * static_cast<int32_t>(15 + seed), seed);
        EXPECT_EQ(memcmp(again.data(), want.data(), want.size() * sizeof(float)), 0);
    }
}

TEST_P(RealModel, EightDecodesTogetherEqualEachAlone) {
    auto f = forward(1);
    std::vector<std::vector<TokenId>> prompts;
    std::vector<std::vector<float>> want;
    for (uint32_t i = 0; i < 8; ++i) {
        prompts.push_back(prompt_of(i + 20, 3 + 3 * i));
        PlainPages pages(f->layout(), 64);
        const StepSequence s = pages.sequence(prompts.back(), 0, 1);
        auto r = f->step({&s, 1});
        ASSERT_TRUE(r.ok());
        want.emplace_back(r->logits.begin(), r->logits.end());
    }
    std::vector<PlainPages> pages;
    for (uint32_t i = 0; i < 8; ++i) pages.emplace_back(f->layout(), 64);
    std::vector<StepSequence> prefill, decode;
    for (size_t i = 0; i < 8; ++i) {
        const TokenSpan all = prompts[i];
        const size_t n = all.size() - 1;
        prefill.push_back(pages[i].sequence(all.first(n), 0, 0));
        decode.push_back(pages[i].sequence(all.subspan(n), static_cast<int32_t>(n), 1));
    }
    ASSERT_TRUE(f->step(prefill).ok());
    auto r = f->step(decode);
    ASSERT_TRUE(r.ok());
    for (size_t i = 0; i < 8; ++i)
        EXPECT_EQ(memcmp(r->logits.data() + i * want[i].size(), want[i].data(),
                         want[i].size() * sizeof(float)),
                  0)
            << i;
}
INSTANTIATE_TEST_SUITE_P(Models, RealModel, testing::Values(0, 1));

}  // namespace
}  // namespace quire
