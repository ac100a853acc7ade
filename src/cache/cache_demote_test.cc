// With write-through off, a tier gets exactly what the tier above gives up.
#include <gtest/gtest.h>

#include "cache/cache.h"
#include "cache/testing/harness.h"

namespace quire {
namespace {

using testing::Harness;
using testing::some_tokens;

constexpr uint32_t kSlots = 64;

class Demotion : public ::testing::Test {
 protected:
    explicit Demotion(std::vector<Tier> tiers = {Tier::g2, Tier::g3})
        : h(kSlots, testing::two_group_layout(), std::move(tiers)) {
        h.write_through = false;
        h.open();
        h.serve(prompt);
    }
    // Fills G1 with something else, so that `prompt` is evicted.
    void push_out() { h.serve(some_tokens(kSlots * 16 - 1, next_seed++)); }
    // Blocks of all groups that `prompt` has computed: six, and the window's share of them.
    uint64_t blocks_of_prompt() const { return h.cache->stats().published_blocks; }
    Tier tier_of_hit() {
        const LeaseId id = h.acquire(prompt);
        h.settle(id);
        Tier tier = Tier::g1;
        for (int t = 0; t < kTierCount; ++t)
            if (h.cache->info(id).tokens_by_tier[t] == 96) tier = static_cast<Tier>(t);
        EXPECT_EQ(h.cache->info(id).cached_tokens, 96u);
        h.expect_pages(id, prompt, {});
        h.cache->release(id);
        return tier;
    }

    const std::vector<TokenId> prompt = some_tokens(100, 1);
    int32_t next_seed = 100;
    Harness h;
};

TEST_F(Demotion, NothingIsWrittenBeforeItIsEvicted) {
    h.serve(prompt);  // a hit does not write either
    EXPECT_EQ(h.blocks_in(0), 0u);
    EXPECT_EQ(h.blocks_in(1), 0u);
    const uint64_t blocks = blocks_of_prompt();
    push_out();
    EXPECT_EQ(h.blocks_in(0), blocks);
    EXPECT_EQ(h.blocks_in(1), 0u);
    EXPECT_EQ(h.stores[0]->unsealed_puts, 0);
    EXPECT_EQ(tier_of_hit(), Tier::g2);
}

TEST_F(Demotion, WhatG2GivesUpGoesToG3) {
    push_out();
    const uint64_t in_g2 = h.blocks_in(0);
    h.stores[0]->evict_all();
    h.cache->poll();
    h.settle_stores();
    EXPECT_EQ(h.blocks_in(0), 0u);
    EXPECT_EQ(h.blocks_in(1), in_g2);
    EXPECT_EQ(tier_of_hit(), Tier::g3);
    // Read back into G1 and given up again it is nearer in G2; G3 has it and is not asked.
    const uint64_t written = h.cache->stats().stored_blocks[2];
    push_out();
    EXPECT_EQ(tier_of_hit(), Tier::g2);
    EXPECT_EQ(h.cache->stats().stored_blocks[2], written);
}

TEST_F(Demotion, AFlushIsNotAnEviction) {
    h.cache->flush(Tier::g1);
    h.settle_stores();
    EXPECT_EQ(h.blocks_in(0) + h.blocks_in(1), 0u);
    EXPECT_EQ(h.cache->explain(prompt, {}).reason, MissReason::flushed);
}

TEST_F(Demotion, WritingBackCopiesEveryTierDown) {
    uint64_t pass = 0;
    const auto write_back = [&] {
        int turns = 0;
        ++pass;
        while (!h.cache->store_all(pass) && ++turns < 1000) {
            for (auto& store : h.stores) store->step_all();
            h.cache->poll();
            h.settle_stores();
        }
        return turns < 1000;
    };
    push_out();  // `prompt` is in G2 alone
    EXPECT_EQ(h.blocks_in(1), 0u);
    // A tier that is full ends a pass, and the next one tries again.
    h.stores[1]->refuse_puts = true;
    ASSERT_TRUE(write_back());
    EXPECT_GT(h.cache->end_pass(), 0u);
    EXPECT_EQ(h.blocks_in(1), 0u);
    h.stores[1]->refuse_puts = false;
    ASSERT_TRUE(write_back());
    EXPECT_EQ(h.cache->end_pass(), 0u);
    h.cache->flush(Tier::g1);
    h.cache->flush(Tier::g2);
    EXPECT_EQ(tier_of_hit(), Tier::g3);
}

TEST_F(Demotion, RefusalsAndFailuresAreTold) {
    h.stores[0]->refuse_puts = true;
    push_out();
    EXPECT_GT(h.cache->stats().store_full[1], 0u);
    EXPECT_EQ(h.cache->stats().store_failures[1], 0u);
    EXPECT_EQ(h.cache->explain(prompt, {}).reason, MissReason::evicted);
    EXPECT_EQ(h.cache->explain(prompt, {}).tier, Tier::g1);

    h.admit = "none";
    h.open();
    h.serve(prompt);
    push_out();
    EXPECT_EQ(h.cache->explain(prompt, {}).reason, MissReason::not_admitted);
}

TEST_F(Demotion, WithoutAFreeCopyABlockIsSkippedAndNothingWaits) {
    h.options.demotion_bytes_max = 0;  // the least there can be: 16 copies
    h.open();
    h.serve(prompt);
    push_out();
    const CacheStats stats = h.cache->stats();
    EXPECT_EQ(stats.stored_blocks[1] + stats.store_busy[1], stats.evicted_blocks);
    EXPECT_EQ(stats.pending_stores, 0u);
    EXPECT_EQ(stats.pending_store_bytes, 0u);
}

class DemotionToDisk : public Demotion {
 protected:
    DemotionToDisk() : Demotion({Tier::g3}) {}
};

TEST_F(DemotionToDisk, WithoutG2WhatG1GivesUpGoesToG3) {
    EXPECT_EQ(h.blocks_in(0), 0u);
    push_out();
    EXPECT_GT(h.blocks_in(0), 0u);
    EXPECT_EQ(tier_of_hit(), Tier::g3);
}

}  // namespace
}  // namespace quire
