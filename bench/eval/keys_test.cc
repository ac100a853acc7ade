#include "bench/eval/keys.h"

#include <string>

#include <gtest/gtest.h>

#include "bench/eval/coded_sequence.h"
#include "bench/eval/testing.h"

namespace quire::bench {
namespace {

using testing::Damage;

Result<std::vector<TokenId>> by_bytes(std::string_view text) {
    return std::vector<TokenId>(text.begin(), text.end());
}

std::string text_of(const std::vector<TokenId>& tokens) {
    return {tokens.begin(), tokens.end()};
}

std::vector<TokenId> filler(size_t n) {
    return std::vector<TokenId>(n, '.');
}

TEST(Keys, ArePlantedOnceAtTheirDepthsAndAskedForInTheirOwnSpan) {
    std::vector<TokenId> text = filler(2000);
    text.front() = '^';
    const auto texts = plant_keys(text, by_bytes, {.keys = 4, .tokens = 530});
    ASSERT_TRUE(texts.ok());
    ASSERT_EQ(texts->size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
        const KeyText& t = (*texts)[i];
        EXPECT_NEAR(t.depth, (2.0 * static_cast<double>(i) + 1) / 8, 0.06);
        const std::string whole = text_of(t.tokens);
        EXPECT_EQ(whole.front(), '^');
        EXPECT_EQ(t.answer_tokens, 6u);  // a blank and five digits
        const std::string asked = whole.substr(512);
        const size_t at = whole.find(asked);
        EXPECT_EQ(at, static_cast<size_t>(t.depth * 512 + 0.5));
        EXPECT_EQ(whole[at + asked.size()], '.');
        EXPECT_EQ(whole.find("pass key", at + asked.size()), whole.rfind("pass key"));
    }
}

TEST(Keys, DependOnTheSeedAlone) {
    const KeyOptions one{.keys = 4, .tokens = 512, .seed = 1};
    KeyOptions two = one;
    two.seed = 2;
    const auto a = plant_keys(filler(2000), by_bytes, one);
    const auto b = plant_keys(filler(3000), by_bytes, one);
    const auto c = plant_keys(filler(2000), by_bytes, two);
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    EXPECT_EQ((*a)[3].tokens, (*b)[3].tokens);
    EXPECT_NE((*a)[3].tokens, (*c)[3].tokens);
    EXPECT_NE(text_of((*a)[0].tokens).substr(512), text_of((*a)[1].tokens).substr(512));
}

TEST(Keys, AreNeitherSinksNorInTheTail) {
    const ExactTokens exact{.sinks = 128, .tail = 256};
    const auto texts =
        plant_keys(filler(2000), by_bytes, {.keys = 4, .tokens = 512, .exact = exact});
    ASSERT_TRUE(texts.ok());
    for (const KeyText& t : *texts) {
        const std::string whole = text_of(t.tokens);
        const size_t at = whole.find("\n\nThe pass key is");
        EXPECT_GE(at, 128u);
        EXPECT_LE(whole.find(".\n\n", at), 512u - (256 - 64));
    }
    const auto bad =
        plant_keys(filler(2000), by_bytes, {.keys = 4, .tokens = 512, .exact = {.tail = 576}});
    ASSERT_EQ(bad.code(), Code::invalid);
    EXPECT_NE(bad.error().message.find("a tail of 576"), std::string::npos);
}

TEST(Keys, WantRoom) {
    for (const auto& [text, tokens] : {std::pair<size_t, uint32_t>{2000, 63}, {500, 512}}) {
        const auto bad = plant_keys(filler(text), by_bytes, {.keys = 2, .tokens = tokens});
        ASSERT_EQ(bad.code(), Code::invalid);
        EXPECT_NE(bad.error().message.find("--keys 0"), std::string::npos);
    }
}

TEST(Keys, CountWhenTheGreedyAnswerIsTheKey) {
    const auto tiny = testing::tiny_evaluation();
    const auto before = testing::random_tokens(192, 3);
    auto forward = span_forward(*tiny.model, 1);
    // The answer that a cache gives: two tokens after the text and a question.
    const auto answer_of = [&](const Candidate* candidate, const std::vector<TokenId>& text) {
        auto sequence = CodedSequence::create(forward->get(), candidate, tiny.means.get(), 256);
        std::vector<TokenId> said;
        const auto say = [&](uint32_t, std::span<const float> logits) {
            said.push_back(best_token(logits));
            return true;
        };
        EXPECT_TRUE(sequence->run(text, 0, 1, say).ok());
        const std::vector<TokenId> last = {said.back()};
        EXPECT_TRUE(sequence->run(last, static_cast<uint32_t>(text.size()), 1, say).ok());
        return said;
    };
    std::vector<std::unique_ptr<Candidate>> candidates;
    candidates.push_back(std::make_unique<Damage>(1.0f));
    candidates.push_back(std::make_unique<Damage>(0.0f));
    std::vector<KeyText> texts;
    std::vector<bool> by_exact, by_damaged;
    for (uint32_t i = 0; i < 9; ++i) {
        KeyText text{.depth = 0, .tokens = before, .answer_tokens = 2};
        const auto question = testing::random_tokens(5, 100 + i);
        text.tokens.insert(text.tokens.end(), question.begin(), question.end());
        auto answer = answer_of(nullptr, text.tokens);
        by_exact.push_back(i % 3 != 0);
        if (i % 3 == 0) answer.back() = (answer.back() + 1) % tiny.model->hparams().n_vocab;
        by_damaged.push_back(answer_of(candidates[1].get(), text.tokens) == answer);
        text.tokens.insert(text.tokens.end(), answer.begin(), answer.end());
        texts.push_back(text);
    }
    uint64_t computed = 0;
    const auto found = find_keys(*tiny.model, texts, candidates, *tiny.means, 1,
                                 [&](uint64_t n) { computed += n; });
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(computed, key_tokens(2, texts));
    EXPECT_EQ(found->exact, by_exact);
    ASSERT_EQ(found->candidates.size(), 2u);
    EXPECT_EQ(found->candidates[0], by_exact);
    EXPECT_EQ(found->candidates[1], by_damaged);
    EXPECT_NE(by_damaged, by_exact);  // otherwise this shows nothing
}

}  // namespace
}  // namespace quire::bench
