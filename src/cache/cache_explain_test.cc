// Every miss has a reason, and it is the true one.
#include <gtest/gtest.h>

#include "cache/cache.h"
#include "cache/testing/harness.h"

namespace quire {
namespace {

using testing::Harness;
using testing::some_tokens;

TEST(CacheExplain, ExplainsWhereAPromptDepartsFromTheNearestOne) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    auto changed = prompt;
    changed[37] ^= 1;
    const CacheExplanation answer = h.cache->explain(changed, {});
    EXPECT_EQ(answer.hit_blocks, 2u);
    EXPECT_EQ(answer.reason, MissReason::never_seen);
    ASSERT_TRUE(answer.differs);
    EXPECT_EQ(answer.first_different_token, 37u);
    EXPECT_EQ(answer.expected, prompt[37]);
    EXPECT_EQ(answer.actual, changed[37]);
}

TEST(CacheExplain, ExplainsEvictionAndFlush) {
    Harness h(64, testing::two_group_layout(), {});
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.cache->flush(Tier::g1);
    EXPECT_EQ(h.cache->explain(prompt, {}).reason, MissReason::flushed);
    EXPECT_EQ(h.cache->explain(prompt, {}).tier, Tier::g1);
}

TEST(CacheExplain, NamesTheLastTierThatHeldABlock) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.cache->flush(Tier::g1);
    h.stores[0]->drop_all();  // as if G2 and then G3 had needed the room
    h.stores[1]->drop_all();
    CacheExplanation answer = h.cache->explain(prompt, {});
    EXPECT_EQ(answer.reason, MissReason::evicted);
    EXPECT_EQ(answer.tier, Tier::g3);
    EXPECT_EQ(answer.ago_ns, -1) << "nobody saw it go";

    h.clock.advance(5);
    h.cache->flush(Tier::g3);
    h.clock.advance(7);
    answer = h.cache->explain(prompt, {});
    EXPECT_EQ(answer.reason, MissReason::flushed);
    EXPECT_EQ(answer.tier, Tier::g3);
    EXPECT_EQ(answer.ago_ns, 7);
}

TEST(CacheExplain, SaysThatAdmissionKeptABlockOut) {
    for (const bool later : {false, true}) {
        SCOPED_TRACE(later);
        Harness h(64, testing::two_group_layout(), {Tier::g2});
        h.admit = "second-use";
        h.open();
        const auto prompt = some_tokens(100, 1);
        h.serve(prompt);
        EXPECT_GT(h.cache->stats().store_skipped[1], 0u);
        if (later) h.serve(prompt);            // a second use: now it is stored
        h.serve(some_tokens(64 * 16 - 1, 2));  // takes all of G1
        const LeaseId again = h.acquire(prompt);
        h.settle(again);
        EXPECT_EQ(h.cache->info(again).miss, later ? MissReason::none : MissReason::not_admitted);
        EXPECT_EQ(h.cache->info(again).cached_tokens, later ? 96u : 0u);
        EXPECT_EQ(h.cache->info(again).miss_tier, later ? Tier::g1 : Tier::g2);
        h.cache->release(again);
        EXPECT_EQ(h.cache->stats().misses[static_cast<int>(MissReason::not_admitted)],
                  later ? 0 : 1);
    }
}

TEST(CacheExplain, SaysThatAnotherModelHoldsTheSameText) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt, "alice", "s");
    const ModelId before = h.options.model;
    h.options.model.value.lo += 1;  // as another quantisation, or other arithmetic, has it
    h.open();
    CacheExplanation answer = h.cache->explain(prompt, {"alice", "s"});
    EXPECT_EQ(answer.hit_blocks, 0u);
    EXPECT_EQ(answer.reason, MissReason::other_model);
    EXPECT_EQ(answer.holder, before);
    // Never across tenants or salts, and only for what is really there.
    EXPECT_EQ(h.cache->explain(prompt, {"bob", "s"}).reason, MissReason::never_seen);
    EXPECT_EQ(h.cache->explain(prompt, {"alice", "t"}).reason, MissReason::never_seen);
    EXPECT_EQ(h.cache->explain(some_tokens(100, 2), {"alice", "s"}).reason, MissReason::never_seen);

    // Behind a prefix of our own too.
    h.serve(TokenSpan(prompt).first(32), "alice", "s");
    answer = h.cache->explain(prompt, {"alice", "s"});
    EXPECT_EQ(answer.hit_blocks, 2u);
    EXPECT_EQ(answer.reason, MissReason::other_model);
    h.stores[0]->drop_all();
    h.stores[1]->drop_all();
    EXPECT_EQ(h.cache->explain(prompt, {"alice", "s"}).reason, MissReason::never_seen);
}

TEST(CacheExplain, AnotherLayoutOfTheSameModelCountsAsAnother) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.options.layout.block_tokens = 32;
    h.options.g1_bytes *= 2;
    h.open();
    EXPECT_EQ(h.cache->explain(prompt, {}).reason, MissReason::other_model);
    EXPECT_EQ(h.cache->explain(prompt, {}).holder, h.options.model);
}

}  // namespace
}  // namespace quire
