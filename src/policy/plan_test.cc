#include "policy/plan.h"

#include <cmath>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace {

// The definition, token by token and block by block.
double predicted_ns(std::span<const PrefixBlock> blocks, uint32_t cut, uint32_t block_tokens,
                    uint32_t prompt_tokens, const CostModel& cost) {
    double ns = 0;
    for (uint32_t t = cut * block_tokens; t < prompt_tokens; ++t) {
        ns += cost.prefill_ns_per_token + t * cost.prefill_ns_per_token_per_key;
    }
    for (int tier = 1; tier < kTierCount; ++tier) {
        int reads = 0;
        for (uint32_t i = 0; i < cut; ++i) {
            if (blocks[i].bytes[tier] == 0) continue;
            ++reads;
            ns += static_cast<double>(blocks[i].bytes[tier]) * cost.load_ns_per_byte[tier];
        }
        const int rounds = (reads + cost.parallel_loads - 1) / cost.parallel_loads;
        ns += rounds * cost.load_latency_ns[tier];
    }
    return ns;
}

TEST(PlanPrefix, EqualsTheBestOfAllCuts) {
    std::mt19937_64 rng(7);
    for (int round = 0; round < 3000; ++round) {
        SCOPED_TRACE("round " + std::to_string(round) + " of seed 7");
        CostModel cost;
        cost.prefill_ns_per_token = static_cast<double>(rng() % 1000);
        cost.prefill_ns_per_token_per_key = rng() % 2 == 0 ? 0 : static_cast<double>(rng() % 5);
        cost.parallel_loads = 1 + static_cast<int>(rng() % 4);
        for (int t = 1; t < kTierCount; ++t) {
            cost.load_ns_per_byte[t] = static_cast<double>(rng() % 10);
            cost.load_latency_ns[t] = static_cast<double>(rng() % 20000);
        }
        const uint32_t block_tokens = 1 + rng() % 16;
        std::vector<PrefixBlock> blocks(rng() % 12);
        for (PrefixBlock& block : blocks) {
            block.loadable = rng() % 10 != 0;
            block.can_end = rng() % 4 != 0;
            for (int t = 0; t < kTierCount; ++t) block.bytes[t] = rng() % 3 == 0 ? rng() % 2000 : 0;
        }
        const auto prompt = static_cast<uint32_t>(rng() % (12 * block_tokens + 2));
        const PrefixPlan plan = plan_prefix(blocks, block_tokens, prompt, cost);

        double best = predicted_ns(blocks, 0, block_tokens, prompt, cost);
        uint32_t best_cut = 0, usable = 0;
        for (uint32_t cut = 1; cut <= blocks.size(); ++cut) {
            if (!blocks[cut - 1].loadable || cut * block_tokens >= prompt) break;
            if (!blocks[cut - 1].can_end) continue;
            usable = cut;
            const double ns = predicted_ns(blocks, cut, block_tokens, prompt, cost);
            if (ns <= best) {
                best = ns;
                best_cut = cut;
            }
        }
        // All costs are whole numbers, so sums are exact in any order.
        ASSERT_EQ(plan.use_blocks, best_cut);
        ASSERT_EQ(plan.cheaper_blocks, usable - best_cut);
        const double full = predicted_ns(blocks, 0, block_tokens, prompt, cost);
        ASSERT_DOUBLE_EQ(full - plan.saved_ns + plan.load_ns, best);
    }
}

TEST(PlanPrefix, LeavesOneTokenToCompute) {
    std::vector<PrefixBlock> blocks(4);
    for (PrefixBlock& b : blocks) b.loadable = true;
    EXPECT_EQ(plan_prefix(blocks, 16, 64, {}).use_blocks, 3u);
    EXPECT_EQ(plan_prefix(blocks, 16, 65, {}).use_blocks, 4u);
    EXPECT_EQ(plan_prefix(blocks, 16, 16, {}).use_blocks, 0u);
    EXPECT_EQ(plan_prefix(blocks, 16, 0, {}).use_blocks, 0u);
    EXPECT_EQ(plan_prefix({}, 16, 100, {}).use_blocks, 0u);
}

TEST(PlanPrefix, RecomputesWhatASlowTierWouldDeliverLater) {
    CostModel cost;
    cost.prefill_ns_per_token = 100;
    cost.load_latency_ns[static_cast<int>(Tier::g3)] = 1e6;
    std::vector<PrefixBlock> blocks(6);
    for (PrefixBlock& b : blocks) b.loadable = true;
    for (size_t i = 3; i < 6; ++i) blocks[i].bytes[static_cast<int>(Tier::g3)] = 4096;
    const PrefixPlan plan = plan_prefix(blocks, 16, 1000, cost);
    EXPECT_EQ(plan.use_blocks, 3u);
    EXPECT_EQ(plan.cheaper_blocks, 3u);
    EXPECT_EQ(plan.load_ns, 0);
    EXPECT_EQ(plan.saved_ns, 100 * 48);
}

TEST(PlanPrefix, NeverCutsWhereAGroupCannotServe) {
    std::vector<PrefixBlock> blocks(3);
    for (PrefixBlock& b : blocks) b.loadable = true;
    blocks[2].can_end = false;
    EXPECT_EQ(plan_prefix(blocks, 16, 100, {}).use_blocks, 2u);
}

Hash128 nth(uint64_t i) {
    std::mt19937_64 rng(i + 1);
    return {rng(), rng()};
}

TEST(Admission, TableHasTheThreeRows) {
    std::set<std::string_view> names;
    for (const AdmissionRow& row : admission_table()) names.insert(row.name);
    EXPECT_EQ(names, (std::set<std::string_view>{"all", "none", "second-use"}));
    EXPECT_EQ(find_admission("second"), nullptr);
    const auto all = find_admission("all")->make(10);
    const auto none = find_admission("none")->make(10);
    EXPECT_TRUE(all->admit(nth(1)));
    none->record(nth(1));
    none->record(nth(1));
    EXPECT_FALSE(none->admit(nth(1)));
}

TEST(Admission, SecondUseAdmitsFromTheSecondUse) {
    const auto policy = find_admission("second-use")->make(1000);
    uint32_t early = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
        policy->record(nth(i));
        early += policy->admit(nth(i)) ? 1 : 0;
    }
    EXPECT_LE(early, 20u) << "false yeses";
    for (uint64_t i = 0; i < 1000; ++i) policy->record(nth(i));
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(policy->admit(nth(i))) << i;
    EXPECT_FALSE(policy->admit(nth(5000)));
}

TEST(Admission, SecondUseForgets) {
    const auto policy = find_admission("second-use")->make(1000);
    policy->record(nth(0));
    policy->record(nth(0));
    EXPECT_TRUE(policy->admit(nth(0)));
    for (uint64_t i = 1; i < 900; ++i) policy->record(nth(i));
    EXPECT_TRUE(policy->admit(nth(0))) << "forgotten within one capacity";
    for (uint64_t i = 900; i < 3000; ++i) policy->record(nth(i));
    EXPECT_FALSE(policy->admit(nth(0))) << "remembered beyond two capacities";
}

}  // namespace
}  // namespace quire
