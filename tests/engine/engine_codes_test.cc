// The engine with compressed pages on real models: the same tokens cold and from every tier, in
// company, and when requests give up their pages. Needs the models that tools/models fetches.
#include <gtest/gtest.h>

#include "real_engine.h"

namespace quire {
namespace {

using testing::EngineCase;
using testing::kModels;
using testing::Pending;
using testing::Reply;
using testing::some_text;

class EngineCodesTest : public testing::RealEngineTest {};

TEST_P(EngineCodesTest, SameTokensColdAndFromEveryTier) {
    open(options());
    EXPECT_EQ(engine_->model().kv().name, GetParam().codec);
    const std::string text = some_text(2000);
    const Reply cold = run(text, 70);
    ASSERT_EQ(cold.finish, Finish::length) << (cold.error ? cold.error->message : "");
    const uint32_t span = GetParam().recent_tokens;
    const uint32_t whole = (cold.timing.prompt_tokens - 1) / span * span;
    const auto expect_from = [&](int tier) {
        const Reply hit = run(text, 70);
        EXPECT_EQ(hit.tokens, cold.tokens);
        EXPECT_EQ(hit.timing.cached_tokens[tier], whole) << hit.timing.miss_reason;
    };
    expect_from(0);
    ASSERT_TRUE(engine_->flush({Tier::g1}, true).ok());
    expect_from(1);
    ASSERT_TRUE(engine_->flush({Tier::g1, Tier::g2}, false).ok());
    expect_from(2);
    engine_->drain(int64_t{10} * 1'000'000'000);
    EngineOptions other_steps = options();
    other_steps.step_tokens = 100;
    other_steps.overlap = LoadOverlap::always;
    open(other_steps);
    expect_from(2);
    ASSERT_TRUE(engine_->flush({}, false).ok());
    EXPECT_EQ(run(text, 70).tokens, cold.tokens) << "steps of other sizes";
    expect_idle();
}

// Company, then memory for the prompts, a block or two each, but not for all answers: some give up
// their pages, and none fails.
TEST_P(EngineCodesTest, CompanyAndPreemptionChangeNoAnswer) {
    // Minutes on two cores; shorter spans show it.
    if (GetParam().recent_tokens > 128) GTEST_SKIP() << "the same with spans of 128";
    constexpr int kAnswerTokens = 240;
    EngineOptions small = options();
    small.disk_dir.clear();
    open(small);
    std::vector<std::string> texts;
    for (size_t i = 0; i < 6; ++i) texts.push_back(some_text(100 + 30 * i, 1000 * i));
    std::vector<Reply> alone;
    for (const std::string& text : texts) alone.push_back(run(text, kAnswerTokens));
    const auto expect_together = [&] {
        std::vector<std::unique_ptr<Pending>> together;
        for (const std::string& text : texts)
            together.push_back(std::make_unique<Pending>(*engine_, greedy(text, kAnswerTokens)));
        for (size_t i = 0; i < texts.size(); ++i) {
            const Reply reply = together[i]->wait();
            EXPECT_EQ(reply.finish, Finish::length) << (reply.error ? reply.error->message : "");
            EXPECT_EQ(reply.tokens, alone[i].tokens) << "request " << i;
        }
        expect_idle();
    };
    ASSERT_TRUE(engine_->flush({}, false).ok());
    expect_together();
    engine_.reset();

    // The least memory that an engine opens with: sixteen coded blocks, and a step's exact ones.
    small.step_tokens = 128;
    small.max_running = 8;
    uint64_t too_little = uint64_t{4} << 20, enough = uint64_t{128} << 20;
    while (enough - too_little > too_little / 32) {
        small.kv_memory_bytes = (too_little + enough) / 2;
        (open_engine(small).ok() ? enough : too_little) = small.kv_memory_bytes;
    }
    small.kv_memory_bytes = enough;
    open(small);
    expect_together();
    EXPECT_GT(engine_->stats().preemptions, 0u) << "the test did not preempt";
}

INSTANTIATE_TEST_SUITE_P(
    Models, EngineCodesTest,
    ::testing::Values(EngineCase{kModels[0], "k6v4"}, EngineCase{kModels[1], "k8v8"},
                      EngineCase{kModels[0], "k6v4", 128}, EngineCase{kModels[1], "k8v8", 256}),
    [](const auto& row) {
        return std::string(row.param.file).substr(0, 5) + std::to_string(row.param.recent_tokens);
    });

}  // namespace
}  // namespace quire
