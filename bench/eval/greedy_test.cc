#include "bench/eval/greedy.h"

#include <gtest/gtest.h>

#include "bench/eval/coded_sequence.h"
#include "bench/eval/testing.h"

namespace quire::bench {
namespace {

using testing::Damage;

TEST(Greedy, TakesTheMiddleAndTheEarliestOfWhatDiffers) {
    const Greedy two{{{64, 64}, {64, 10}, {64, 3}, {64, 64}}};
    EXPECT_EQ(two.earliest(), 3u);
    EXPECT_EQ(two.median(), 10u);
    const Greedy one{{{64, 64}, {64, 0}, {5, 5}}};  // the last ended early, and the same
    EXPECT_EQ(one.earliest(), 0u);
    EXPECT_EQ(one.median(), std::nullopt);
    EXPECT_EQ(Greedy{}.median(), std::nullopt);
    EXPECT_EQ((Greedy{{{64, 64}}}.earliest()), std::nullopt);
}

// What a candidate says on its own, token by token.
std::vector<TokenId> continuation(const testing::TinyEvaluation& tiny, const Candidate* candidate,
                                  std::vector<TokenId> tokens, uint32_t n) {
    auto forward = span_forward(*tiny.model, 1);
    auto sequence = CodedSequence::create(forward->get(), candidate, tiny.means.get(),
                                          static_cast<uint32_t>(tokens.size()) + n);
    EXPECT_TRUE(sequence.ok());
    std::vector<TokenId> said;
    const auto say = [&](uint32_t, std::span<const float> logits) {
        said.push_back(best_token(logits));
        return true;
    };
    EXPECT_TRUE(sequence->run(tokens, 0, 1, say).ok());
    for (auto at = static_cast<uint32_t>(tokens.size()); said.size() < n; ++at) {
        const std::vector<TokenId> last = {said.back()};
        EXPECT_TRUE(sequence->run(last, at, 1, say).ok());
    }
    return said;
}

TEST(Greedy, IsWhereACandidatesOwnContinuationLeaves) {
    const auto tiny = testing::tiny_evaluation();
    const auto text = testing::random_tokens(400, 5);
    std::vector<std::unique_ptr<Candidate>> candidates;
    for (const float factor : {1.0f, 0.97f, 0.8f, 0.0f})
        candidates.push_back(std::make_unique<Damage>(factor));
    uint64_t computed = 0;
    const GreedyOptions options{.threads = 1,
                                .prompts = 3,
                                .prompt_tokens = 100,
                                .tokens = 40,
                                .ends = {},
                                .computed = [&](uint64_t n) { computed += n; }};
    const auto got = continue_greedily(*tiny.model, text, candidates, *tiny.means, options);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(computed, greedy_tokens(candidates.size(), options));
    size_t left = 0;
    for (uint32_t p = 0; p < options.prompts; ++p) {
        const auto from = text.begin() + 150 * p;
        std::vector<TokenId> prompt(from, from + 100);
        prompt.front() = text.front();
        const auto exact = continuation(tiny, nullptr, prompt, 40);
        for (size_t c = 0; c < candidates.size(); ++c) {
            const auto own = continuation(tiny, candidates[c].get(), prompt, 40);
            const auto differs = std::mismatch(own.begin(), own.end(), exact.begin()).first;
            EXPECT_EQ((*got)[c].prompts[p].tokens, 40u);
            EXPECT_EQ((*got)[c].prompts[p].same, static_cast<uint32_t>(differs - own.begin()))
                << "candidate " << c << ", prompt " << p;
            left += differs != own.end();
        }
    }
    EXPECT_EQ((*got)[0].earliest(), std::nullopt);
    EXPECT_GT(left, 2u);
}

TEST(Greedy, EndsWithATokenThatEnds) {
    const auto tiny = testing::tiny_evaluation();
    const auto text = testing::random_tokens(100, 5);
    const auto exact = continuation(tiny, nullptr, text, 8);
    std::vector<std::unique_ptr<Candidate>> candidates;
    candidates.push_back(std::make_unique<Damage>(1.0f));
    uint64_t computed = 0;
    const GreedyOptions options{.prompts = 1,
                                .prompt_tokens = 100,
                                .tokens = 40,
                                .ends = [&](TokenId token) { return token == exact[3]; },
                                .computed = [&](uint64_t n) { computed += n; }};
    const auto got = continue_greedily(*tiny.model, text, candidates, *tiny.means, options);
    ASSERT_TRUE(got.ok());
    const auto first = std::find(exact.begin(), exact.end(), exact[3]) - exact.begin();
    EXPECT_EQ((*got)[0].prompts[0].tokens, static_cast<uint32_t>(first) + 1);
    EXPECT_EQ((*got)[0].prompts[0].same, (*got)[0].prompts[0].tokens);
    EXPECT_EQ(computed, greedy_tokens(1, options));
    EXPECT_EQ(continue_greedily(*tiny.model, {1, 2}, candidates, *tiny.means, options).code(),
              Code::invalid);
}

}  // namespace
}  // namespace quire::bench
