#include "bench/eval/own_text.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "bench/eval/coded_sequence.h"
#include "bench/eval/divergence.h"
#include "bench/eval/testing.h"

namespace quire::bench {
namespace {

class OwnTexts : public ::testing::Test {
 protected:
    void SetUp() override { tiny_ = testing::tiny_evaluation(); }
    std::vector<TokenId> write(const OwnTextOptions& options) {
        auto text = write_own_text(*tiny_.model, options);
        EXPECT_TRUE(text.ok()) << text.error().message;
        return std::move(text).value();
    }
    testing::TinyEvaluation tiny_;
};

TEST_F(OwnTexts, AreAsLongAsAskedForAndFollowTheSeed) {
    uint64_t computed = 0;
    OwnTextOptions options{.tokens = 200,
                           .seed = 5,
                           .prompts = {{1, 2, 3}},
                           .ends = {},
                           .computed = [&](uint64_t n) { computed += n; }};
    const auto text = write(options);
    EXPECT_EQ(computed, 200u);
    ASSERT_EQ(text.size(), 203u);
    EXPECT_EQ(std::vector<TokenId>(text.begin(), text.begin() + 3), options.prompts[0]);
    EXPECT_EQ(write(options), text);
    EXPECT_GT(std::set<TokenId>(text.begin(), text.end()).size(), 20u);  // drawn, not the best
    options.seed = 6;
    EXPECT_NE(write(options), text);
}

// At the text's own positions the model finds its tokens about as likely as an honest draw does.
TEST_F(OwnTexts, AreLikelierThanOthersToTheModelThatWroteThem) {
    const auto text = write({.tokens = 300, .prompts = {{1, 2, 3}}, .ends = {}, .computed = {}});
    const auto per_token = [&](const std::vector<TokenId>& tokens) {
        auto forward = span_forward(*tiny_.model, 1);
        auto sequence = CodedSequence::create(forward->get(), nullptr, nullptr, 320);
        double sum = 0;
        const auto judge = [&](uint32_t i, std::span<const float> logits) {
            const LogitRow row(logits);
            if (i + 1 < tokens.size())
                sum += row.log_probability(static_cast<size_t>(tokens[i + 1]));
            return true;
        };
        EXPECT_TRUE(
            sequence->run(tokens, 0, static_cast<uint32_t>(tokens.size()), judge).ok());
        return sum / static_cast<double>(tokens.size());
    };
    EXPECT_GT(per_token(text), per_token(testing::random_tokens(303, 4)) + 0.05);
}

TEST_F(OwnTexts, GoOnWithTheNextPromptWhereTheModelEnds) {
    OwnTextOptions options{.tokens = 150, .prompts = {{1, 2}, {7, 7, 7}}, .ends = {},
                           .computed = {}};
    // What ended the text is no part of it.
    options.ends = [](TokenId token) { return token >= 10 && token % 10 == 0; };
    const auto text = write(options);
    EXPECT_EQ(std::ranges::count_if(text, options.ends), 0);
    const std::vector<TokenId> second = {7, 7, 7};
    EXPECT_FALSE(std::ranges::search(text, second).empty());
    EXPECT_GT(text.size(), 150u + 2 + 3);
}

TEST_F(OwnTexts, AreRefusedWhenThereCannotBeAny) {
    const auto refused = [&](const OwnTextOptions& options) {
        const auto bad = write_own_text(*tiny_.model, options);
        return bad.ok() ? "" : bad.error().message;
    };
    EXPECT_NE(refused({.prompts = {}, .ends = {}, .computed = {}}).find("prompt"),
              std::string::npos);
    EXPECT_NE(refused({.tokens = 2048, .prompts = {{1}}, .ends = {}, .computed = {}})
                  .find("past the model's context of 2048"),
              std::string::npos);
    const auto all_end = [](TokenId) { return true; };
    EXPECT_NE(refused({.tokens = 64, .prompts = {{1}}, .ends = all_end, .computed = {}})
                  .find("it wrote 0 of 64"),
              std::string::npos);
}

}  // namespace
}  // namespace quire::bench
