#include "bench/eval/coded_sequence.h"

#include <gtest/gtest.h>

#include "bench/eval/testing.h"

namespace quire::bench {
namespace {

using testing::Damage;
using testing::random_tokens;

class CodedSequences : public ::testing::Test {
 protected:
    void SetUp() override {
        tiny_ = testing::tiny_evaluation();
        auto forward = span_forward(*tiny_.model, 1);
        ASSERT_TRUE(forward.ok());
        forward_ = std::move(forward).value();
    }
    CodedSequence make(const Candidate* candidate) {
        auto sequence = CodedSequence::create(forward_.get(), candidate, tiny_.means.get(), 200);
        EXPECT_TRUE(sequence.ok());
        return std::move(sequence).value();
    }
    // Logits of the last 40 of 150 tokens, cut where `cut` says too.
    std::vector<float> logits(const Candidate* candidate, uint32_t cut) {
        const auto tokens = random_tokens(150, 7);
        CodedSequence sequence = make(candidate);
        std::vector<float> all;
        const auto keep = [&](uint32_t, std::span<const float> row) {
            all.insert(all.end(), row.begin(), row.end());
            return true;
        };
        EXPECT_EQ(*sequence.run(TokenSpan(tokens).first(cut), 0, 0, keep), cut);
        EXPECT_EQ(*sequence.run(TokenSpan(tokens).subspan(cut), cut, 40, keep), 150 - cut);
        return all;
    }

    testing::TinyEvaluation tiny_;
    std::unique_ptr<Forward> forward_;
};

TEST_F(CodedSequences, CodeClosedSpansOnceAndNeverTheSinks) {
    const Damage nothing(1);
    logits(&nothing, 100);
    using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
    EXPECT_EQ(nothing.seen, (Pairs{{16, 48}, {64, 64}}));
}

TEST_F(CodedSequences, KeepSinksAndTailOfAnySize) {
    using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
    const auto seen = [&](const ExactTokens& exact) {
        const Damage nothing(1);
        auto sequence = CodedSequence::create(forward_.get(), &nothing, tiny_.means.get(), 320,
                                              exact);
        EXPECT_TRUE(sequence.ok());
        const auto tokens = random_tokens(300, 7);
        const auto ignore = [](uint32_t, std::span<const float>) { return true; };
        EXPECT_TRUE(sequence->run(TokenSpan(tokens).first(260), 0, 0, ignore).ok());
        // From an earlier position again: what is coded is not coded twice.
        EXPECT_TRUE(sequence->run(TokenSpan(tokens).subspan(192), 192, 0, ignore).ok());
        return nothing.seen;
    };
    EXPECT_EQ(seen({.sinks = 0, .tail = 128}), (Pairs{{0, 64}, {64, 64}, {128, 64}}));
    EXPECT_EQ(seen({.sinks = 80, .tail = 128}), (Pairs{{80, 48}, {128, 64}}));
    EXPECT_EQ(seen({.sinks = 64, .tail = 192}), (Pairs{{64, 64}}));
    EXPECT_EQ(seen({.sinks = 16, .tail = 320}), Pairs{});
}

TEST(ExactTokens, AreRefusedByTheNameOfTheirOption) {
    EXPECT_TRUE(check_exact_tokens({}, 128).ok());
    EXPECT_TRUE(check_exact_tokens({.sinks = 0, .tail = 64}, 128).ok());
    EXPECT_TRUE(check_exact_tokens({.sinks = 64, .tail = 448}, 1024).ok());
    const auto refused = [](const ExactTokens& exact, const char* option) {
        const Status bad = check_exact_tokens(exact, 1024);
        return bad.code() == Code::invalid && bad.error().message.starts_with(option);
    };
    EXPECT_TRUE(refused({.sinks = 20}, "--sink-tokens 20:"));
    EXPECT_TRUE(refused({.tail = 0}, "--tail-tokens 0:"));
    EXPECT_TRUE(refused({.tail = 100}, "--tail-tokens 100:"));
    EXPECT_TRUE(refused({.sinks = 512}, "--sink-tokens 512 and --tail-tokens 64 leave nothing"));
    EXPECT_TRUE(refused({.tail = 576}, "--sink-tokens 16 and --tail-tokens 576 leave nothing"));
}

TEST_F(CodedSequences, DoNotDependOnHowTheTextIsCut) {
    const Damage half(0.5f);
    EXPECT_EQ(logits(&half, 1), logits(&half, 100));
    EXPECT_EQ(logits(nullptr, 64), logits(nullptr, 65));
}

TEST_F(CodedSequences, GiveTheExactLogitsUntilSomethingIsLost) {
    const Damage nothing(1), all(0);
    EXPECT_EQ(logits(&nothing, 64), logits(nullptr, 64));
    EXPECT_NE(logits(&all, 64), logits(nullptr, 64));
}

TEST_F(CodedSequences, GoOnFromAnyEarlierPosition) {
    const Damage half(0.5f);
    const auto tokens = random_tokens(130, 7), other = random_tokens(20, 8);
    const auto ignore = [](uint32_t, std::span<const float>) { return true; };
    CodedSequence once = make(&half), twice = make(&half);
    for (CodedSequence* s : {&once, &twice}) ASSERT_TRUE(s->run(tokens, 0, 0, ignore).ok());
    ASSERT_TRUE(twice.run(other, 128, 0, ignore).ok());
    const auto row_after = [&](CodedSequence* s) {
        const auto row = s->step(TokenSpan(tokens).last(2), 128, 1);
        EXPECT_TRUE(row.ok());
        return std::vector<float>(row->begin(), row->end());
    };
    EXPECT_EQ(row_after(&once), row_after(&twice));
}

TEST_F(CodedSequences, StopWhenTold) {
    const auto tokens = random_tokens(150, 7);
    CodedSequence sequence = make(nullptr);
    uint32_t rows = 0;
    const auto done =
        sequence.run(tokens, 0, 150, [&](uint32_t, std::span<const float>) { return ++rows < 10; });
    EXPECT_EQ(rows, 10u);
    EXPECT_EQ(*done, 64u);
}

}  // namespace
}  // namespace quire::bench
