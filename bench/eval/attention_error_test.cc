#include "bench/eval/attention_error.h"

#include <cmath>

#include <gtest/gtest.h>

#include "bench/eval/evaluate.h"
#include "bench/eval/testing.h"

namespace quire::bench {
namespace {

using testing::Damage;

TEST(AttentionErrors, AreRelativeToTheExactOutput) {
    AttentionError errors(2, 1);
    const std::vector<float> exact(600, 2.0f), off(600, 2.5f), none(600, 0.0f);
    errors.expect_nothing();
    errors.attended(0, none);
    errors.expect_exact();
    errors.attended(0, exact);
    errors.attended(1, none);
    errors.expect(0);
    errors.attended(0, off);
    errors.attended(1, none);
    const std::vector<double> relative = errors.relative_rms(0);
    ASSERT_EQ(relative.size(), 2u);
    EXPECT_NEAR(relative[0], 0.25, 1e-6);
    EXPECT_EQ(relative[1], 0);
}

TEST(AttentionErrors, BeginAtTheLayerThatIsDamaged) {
    const auto tiny = testing::tiny_evaluation();
    std::vector<std::unique_ptr<Candidate>> candidates;
    candidates.push_back(std::make_unique<Damage>(1.0f));
    candidates.push_back(std::make_unique<Damage>(0.5f, 1));
    candidates.push_back(noise_floor_candidate());
    const auto text = testing::random_tokens(257, 3);
    EvalOptions options{.threads = 1, .tokens = 256, .layer_errors = true};
    const auto rows = evaluate(*tiny.model, text, candidates, *tiny.means, options);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    const auto layers = static_cast<size_t>(tiny.model->hparams().n_layers);
    EXPECT_EQ((*rows)[0].layer_errors, std::vector<double>(layers, 0));
    EXPECT_EQ((*rows)[0].divergence.max, 0);
    const std::vector<double>& damaged = (*rows)[1].layer_errors;
    ASSERT_EQ(damaged.size(), layers);
    EXPECT_EQ(damaged[0], 0);
    EXPECT_GT(damaged[1], 0.1);
    EXPECT_GT(damaged[2], 0);
    EXPECT_LT(damaged[2], damaged[1]);  // it only hears of it
    // The noise of 16 bits is there, and small: bf16 keeps 8 bits of a number.
    EXPECT_TRUE((*rows)[2].noise_floor);
    for (const double error : (*rows)[2].layer_errors) {
        EXPECT_GT(error, 0);
        EXPECT_LT(error, 0.01);
    }
    EXPECT_GT((*rows)[2].divergence.mean, 0);
    EXPECT_LT((*rows)[2].divergence.mean, (*rows)[1].divergence.mean / 10);

    options.layer_errors = false;
    const auto without = evaluate(*tiny.model, text, candidates, *tiny.means, options);
    ASSERT_TRUE(without.ok());
    EXPECT_TRUE((*without)[1].layer_errors.empty());
    EXPECT_EQ((*without)[1].divergence.mean, (*rows)[1].divergence.mean);
}

TEST(Evaluations, SayWhatTheTextLacks) {
    const auto tiny = testing::tiny_evaluation();
    const auto text = testing::random_tokens(3001, 3);
    const auto short_one = check_text(*tiny.model, text, {.tokens = 3001});
    ASSERT_EQ(short_one.code(), Code::invalid);
    EXPECT_NE(short_one.error().message.find("3002 are needed"), std::string::npos);
    const auto long_one = check_text(*tiny.model, text, {.tokens = 3000});
    ASSERT_EQ(long_one.code(), Code::invalid);
    EXPECT_NE(long_one.error().message.find("context of 2048"), std::string::npos);
    EXPECT_TRUE(check_text(*tiny.model, text, {.tokens = 2048}).ok());
}

}  // namespace
}  // namespace quire::bench
