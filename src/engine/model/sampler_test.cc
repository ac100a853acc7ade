#include "engine/model/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Sampling greedy() {
    return {.temperature = 0};
}

TokenId pick(const Sampling& s, const std::vector<float>& logits, TokenSpan prompt = {}) {
    Sampler sampler(s, prompt);
    auto r = sampler.sample(logits, {});
    EXPECT_TRUE(r.ok());
    return *r;
}

// How often each token is drawn with seeds 0 to n - 1.
std::map<TokenId, int> draws(Sampling s, const std::vector<float>& logits, int n) {
    std::map<TokenId, int> counts;
    for (int i = 0; i < n; ++i) {
        s.seed = static_cast<uint64_t>(i);
        ++counts[pick(s, logits)];
    }
    return counts;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfATie) {
    EXPECT_EQ(pick(greedy(), {0, 3, 1, 3, 2}), 1);
    EXPECT_EQ(pick(greedy(), {-5, -4, -4}), 1);
    std::vector<float> many(1003, 1.0f);
    many[1002] = 2.0f;  // in the ragged tail
    EXPECT_EQ(pick(greedy(), many), 1002);
}

TEST(Sampler, NanIsNeverChosenAndInfinityIsTheLargest) {
    EXPECT_EQ(pick(greedy(), {kNan, 1, kNan, 2, kNan}), 3);
    EXPECT_EQ(pick(greedy(), {1, kInf, kNan, kInf}), 1);
    Sampler sampler(greedy(), {});
    EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInf}, {}).code(), Code::bug);
    const auto counts = draws({}, {kNan, 0, -kInf, 0, kNan}, 200);
    for (const auto& [token, n] : counts) EXPECT_TRUE(token == 1 || token == 3);
    EXPECT_EQ(counts.size(), 2u);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
    const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
    auto counts = draws({}, logits, 20000);
    EXPECT_NEAR(counts[0], 10000, 300);
    EXPECT_NEAR(counts[1], 6000, 300);
    EXPECT_NEAR(counts[2], 4000, 300);
    counts = draws({.temperature = 0.5f}, logits, 20000);  // squares: .25 .09 .04 over .38
    EXPECT_NEAR(counts[0], 13158, 350);
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
    const std::vector<float> logits = {std::log(0.4f), std::log(0.1f), std::log(0.3f),
                                       std::log(0.2f)};
    auto keys = [](const std::map<TokenId, int>& m) {
        std::vector<TokenId> k;
        for (const auto& [t, n] : m) k.push_back(t);
        return k;
    };
    EXPECT_EQ(keys(draws({.top_k = 2}, logits, 500)), (std::vector<TokenId>{0, 2}));
    EXPECT_EQ(keys(draws({.top_p = 0.65f}, logits, 500)), (std::vector<TokenId>{0, 2}));
    EXPECT_EQ(keys(draws({.top_p = 0.75f}, logits, 500)), (std::vector<TokenId>{0, 2, 3}));
    EXPECT_EQ(keys(draws({.min_p = 0.6f}, logits, 500)), (std::vector<TokenId>{0, 2}));
    EXPECT_EQ(keys(draws({.top_k = 1}, {1, 1, 1}, 50)), (std::vector<TokenId>{0}));
    EXPECT_EQ(keys(draws({.top_p = 1e-6f}, {1, 1, 1}, 50)), (std::vector<TokenId>{0}));
}

TEST(Sampler, TopPOverALargeFlatVocabularyKeepsItsShare) {
    const std::vector<float> flat(5000, 0.0f);
    for (const auto& [token, n] : draws({.top_p = 0.1f}, flat, 300)) EXPECT_LE(token, 500);
}

TEST(Sampler, BiasAndBansDecide) {
    EXPECT_EQ(pick({.temperature = 0, .logit_bias = {{2, 10.0f}, {0, -10.0f}}}, {3, 2, 1}), 2);
    Sampler sampler(greedy(), {});
    const TokenId banned[] = {1};
    EXPECT_EQ(*sampler.sample(std::vector<float>{1, 5, 3}, banned), 2);
}

TEST(Sampler, PenaltiesCountWhatTheySay) {
    const TokenId prompt[] = {0};
    EXPECT_EQ(pick({.temperature = 0, .repetition_penalty = 2}, {3, 2, 1}, prompt), 1);
    // Presence and frequency do not look at the prompt.
    EXPECT_EQ(
        pick({.temperature = 0, .presence_penalty = 2, .frequency_penalty = 2}, {3, 2, 1}, prompt),
        0);
    Sampler sampler({.temperature = 0, .frequency_penalty = 0.4f}, {});
    const std::vector<float> logits = {3, 2, 1};
    for (const TokenId want : {0, 0, 0}) {
        EXPECT_EQ(*sampler.sample(logits, {}), want);
        sampler.accept(want);
    }
    EXPECT_EQ(*sampler.sample(logits, {}), 1);  // 3 - 3 x 0.4 < 2
    Sampler negative({.temperature = 0, .repetition_penalty = 2}, prompt);
    EXPECT_EQ(*negative.sample(std::vector<float>{-1, -1.5f}, {}), 1);  // -1 becomes -2
}

TEST(Sampler, DrawsDependOnSeedAndTokenNumberOnly) {
    const std::vector<float> logits(100, 0.0f);
    Sampler a({.seed = 7}, {});
    Sampler b({.seed = 7}, {});
    std::vector<TokenId> first, second;
    for (int i = 0; i < 20; ++i) {
        first.push_back(*a.sample(logits, {}));
        (void)a.sample(logits, {});  // looking twice changes nothing
        a.accept(first.back());
    }
    for (int i = 0; i < 20; ++i) {
        second.push_back(*b.sample(logits, {}));
        b.accept(second.back());
    }
    EXPECT_EQ(first, second);
    EXPECT_NE(pick({.seed = 8}, logits), first[0]);
    EXPECT_EQ(uniform_at(1, 2), uniform_at(1, 2));
    EXPECT_NE(uniform_at(1, 2), uniform_at(2, 1));
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
    const std::vector<float> logits = {0, std::log(3.0f), kNan, std::log(4.0f), -kInf};
    const Logprobs lp = logprobs_of(logits, 1, 3);
    EXPECT_NEAR(lp.chosen, std::log(3.0 / 8), 1e-6);
    ASSERT_EQ(lp.top.size(), 3u);
    EXPECT_EQ(lp.top[0].first, 3);
    EXPECT_NEAR(lp.top[0].second, std::log(0.5), 1e-6);
    EXPECT_EQ(lp.top[1].first, 1);
    EXPECT_EQ(lp.top[2].first, 0);
    EXPECT_EQ(logprobs_of(logits, 2, 0).chosen, -kInf);
    EXPECT_TRUE(logprobs_of(logits, 0, 0).top.empty());
    EXPECT_EQ(logprobs_of(std::vector<float>{1, 1, 1}, 0, 2).top[0].first, 0);
}

TEST(Sampler, RefusesSettingsOutOfRange) {
    const std::pair<Sampling, const char*> cases[] = {
        {{.temperature = -1}, "temperature"},
        {{.temperature = kNan}, "temperature"},
        {{.top_k = -2}, "top_k"},
        {{.top_p = 0}, "top_p"},
        {{.top_p = 1.5f}, "top_p"},
        {{.min_p = -0.1f}, "min_p"},
        {{.repetition_penalty = 0}, "repetition_penalty"},
        {{.presence_penalty = kInf}, "presence_penalty"},
        {{.frequency_penalty = kNan}, "frequency_penalty"},
        {{.logit_bias = {{10, 1.0f}}}, "token 10"},
        {{.logit_bias = {{-1, 1.0f}}}, "token -1"},
        {{.logit_bias = {{1, kNan}}}, "logit_bias"},
    };
    EXPECT_TRUE(Sampler::check({}, 10).ok());
    for (const auto& [sampling, name] : cases) {
        const Status status = Sampler::check(sampling, 10);
        ASSERT_EQ(status.code(), Code::invalid) << name;
        EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;
    }
}

}  // namespace
}  // namespace quire
