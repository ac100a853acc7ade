#include "cache/cache.h"

#include <gtest/gtest.h>

#include "cache/testing/harness.h"

namespace quire {
namespace {

using testing::Fault;
using testing::Harness;
using testing::some_tokens;

constexpr uint32_t kBlock = 16;

TEST(Cache, ServesAPromptAgainFromG1) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    const LeaseId first = h.acquire(prompt);
    EXPECT_EQ(h.cache->info(first).cached_tokens, 0u);
    EXPECT_EQ(h.cache->info(first).miss, MissReason::never_seen);
    h.compute(first, prompt, {});
    h.cache->release(first);

    const LeaseId again = h.acquire(prompt);
    ASSERT_EQ(h.cache->info(again).state, LeaseState::ready);
    EXPECT_EQ(h.cache->info(again).cached_tokens, 96u);
    EXPECT_EQ(h.cache->info(again).tokens_by_tier[0], 96u);
    EXPECT_EQ(h.cache->info(again).miss, MissReason::none);
    h.expect_pages(again, prompt, {});
    h.cache->release(again);
    EXPECT_EQ(h.cache->stats().leases, 0u);
}

TEST(Cache, AlwaysLeavesATokenToCompute) {
    Harness h(64);
    const auto prompt = some_tokens(96, 1);  // a whole number of blocks
    const LeaseId first = h.acquire(prompt);
    h.compute(first, prompt, {});
    h.cache->release(first);
    // The last block is copied, and only its last token computed.
    const LeaseId again = h.acquire(prompt);
    EXPECT_EQ(h.cache->info(again).cached_tokens, 95u);
    h.expect_pages(again, prompt, {});
    h.compute(again, prompt, {});
    EXPECT_EQ(h.cache->stats().deduplicated_blocks, 2u);
    h.cache->release(again);
    // Only in G1; elsewhere the whole block is computed.
    h.settle_stores();
    h.cache->flush(Tier::g1);
    const LeaseId loaded = h.acquire(prompt);
    h.settle(loaded);
    EXPECT_EQ(h.cache->info(loaded).cached_tokens, 80u);
    h.cache->release(loaded);
}

TEST(Cache, KeepsSaltsAndTenantsApart) {
    Harness h(64);
    const auto prompt = some_tokens(64, 1);
    const LeaseId first = h.acquire(prompt, "alice", "s1");
    h.compute(first, prompt, {"alice", "s1"});
    h.cache->release(first);
    const LeaseId salt = h.acquire(prompt, "alice", "s2");
    EXPECT_EQ(h.cache->info(salt).cached_tokens, 0u);
    EXPECT_EQ(h.cache->info(salt).miss, MissReason::other_salt);
    h.cache->release(salt);
    const LeaseId tenant = h.acquire(prompt, "bob", "s1");
    EXPECT_EQ(h.cache->info(tenant).cached_tokens, 0u);
    EXPECT_EQ(h.cache->info(tenant).miss, MissReason::other_tenant);
    h.cache->release(tenant);
    const LeaseId same = h.acquire(prompt, "alice", "s1");
    EXPECT_EQ(h.cache->info(same).cached_tokens, 63u);
    h.cache->release(same);
}

TEST(Cache, LoadsFromEachLowerTierAfterTheOneAboveWasFlushed) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    EXPECT_EQ(h.stores[0]->unsealed_puts + h.stores[1]->unsealed_puts, 0);

    h.cache->flush(Tier::g1);
    const LeaseId from_g2 = h.acquire(prompt);
    EXPECT_EQ(h.cache->info(from_g2).state, LeaseState::loading);
    h.settle(from_g2);
    EXPECT_EQ(h.cache->info(from_g2).cached_tokens, 96u);
    EXPECT_EQ(h.cache->info(from_g2).tokens_by_tier[1], 96u);
    h.expect_pages(from_g2, prompt, {});
    h.cache->release(from_g2);

    h.cache->flush(Tier::g1);
    h.cache->flush(Tier::g2);
    const LeaseId from_g3 = h.acquire(prompt);
    h.settle(from_g3);
    EXPECT_EQ(h.cache->info(from_g3).tokens_by_tier[2], 96u);
    h.expect_pages(from_g3, prompt, {});
    h.cache->release(from_g3);
}

TEST(Cache, SurvivesARestartThroughTheDurableTier) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.open();  // a new cache over the same stores
    const LeaseId again = h.acquire(prompt);
    h.settle(again);
    EXPECT_EQ(h.cache->info(again).cached_tokens, 96u);
    h.expect_pages(again, prompt, {});
    h.cache->release(again);
}

TEST(Cache, EveryFailedReadIsAMissWithAReason) {
    for (Fault fault :
         {Fault::miss, Fault::io, Fault::corrupt_code, Fault::damaged_bytes, Fault::other_block}) {
        SCOPED_TRACE(static_cast<int>(fault));
        Harness h(64, testing::two_group_layout(), {Tier::g3});
        const auto prompt = some_tokens(100, 1);
        h.serve(prompt);
        h.cache->flush(Tier::g1);
        int reads = 0;
        h.stores[0]->fault = [&](const BlockKey&) { return ++reads == 4 ? fault : Fault::none; };
        const LeaseId again = h.acquire(prompt);
        h.settle(again);
        EXPECT_LE(h.cache->info(again).cached_tokens, 96u);
        h.expect_pages(again, prompt, {});
        EXPECT_EQ(h.cache->stats().load_failures[2], 1u);
        h.compute(again, prompt, {});
        h.cache->release(again);
    }
}

TEST(Cache, AStoreThatAlwaysFailsEndsInAColdStart) {
    Harness h(64, testing::two_group_layout(), {Tier::g3});
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.cache->flush(Tier::g1);
    h.stores[0]->fault = [](const BlockKey&) { return Fault::io; };
    const LeaseId again = h.acquire(prompt);
    h.settle(again);
    EXPECT_EQ(h.cache->info(again).cached_tokens, 0u);
    h.cache->release(again);

    h.stores[0]->refuse_gets = true;
    const LeaseId refused = h.acquire(prompt);
    h.settle(refused);
    EXPECT_EQ(h.cache->info(refused).cached_tokens, 0u);
    h.cache->release(refused);
}

TEST(Cache, IdenticalPromptsInFlightAreComputedOnce) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    const LeaseId first = h.acquire(prompt);
    const LeaseId second = h.acquire(prompt);
    EXPECT_EQ(h.cache->info(second).state, LeaseState::waiting);
    h.cache->poll();
    EXPECT_EQ(h.cache->info(second).state, LeaseState::waiting);
    h.compute(first, prompt, {});
    h.cache->poll();
    ASSERT_EQ(h.cache->info(second).state, LeaseState::ready);
    EXPECT_EQ(h.cache->info(second).cached_tokens, 96u);
    h.expect_pages(second, prompt, {});
    EXPECT_EQ(h.cache->stats().shared_waits, 1u);
    h.cache->release(first);
    h.cache->release(second);
}

TEST(Cache, AWaiterGoesOnWhenTheComputingLeaseDies) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    const LeaseId first = h.acquire(prompt);
    const LeaseId second = h.acquire(prompt);
    h.cache->release(first);
    h.cache->poll();
    EXPECT_EQ(h.cache->info(second).state, LeaseState::ready);
    EXPECT_EQ(h.cache->info(second).cached_tokens, 0u);
    h.cache->release(second);
}

TEST(Cache, AWaitIsBoundedEvenIfTheOtherNeverFinishes) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    const LeaseId first = h.acquire(prompt);
    const LeaseId second = h.acquire(prompt);
    h.clock.advance(int64_t{61} * 1'000'000'000);
    h.cache->poll();
    EXPECT_EQ(h.cache->info(second).state, LeaseState::ready);
    // Both compute the same blocks; the second to publish gives its copy back.
    h.compute(first, prompt, {});
    h.compute(second, prompt, {});
    EXPECT_GT(h.cache->stats().deduplicated_blocks, 0u);
    h.cache->release(first);
    h.cache->release(second);
}

TEST(Cache, TwoLeasesShareOneLoad) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.cache->flush(Tier::g1);
    const LeaseId a = h.acquire(prompt);
    const LeaseId b = h.acquire(prompt);
    const uint64_t pending = h.cache->stats().pending_loads;
    EXPECT_EQ(pending, 6u + 3u);  // six full blocks, and the window's last three, once each
    h.cache->release(a);          // leaving early takes nothing from the other
    h.settle(b);
    EXPECT_EQ(h.cache->info(b).cached_tokens, 96u);
    h.expect_pages(b, prompt, {});
    h.cache->release(b);
}

TEST(Cache, ReleasingEverybodyDuringALoadFreesTheSlotsAfterIt) {
    Harness h(64);
    const auto prompt = some_tokens(100, 1);
    h.serve(prompt);
    h.cache->flush(Tier::g1);
    const LeaseId a = h.acquire(prompt);
    h.cache->release(a);
    EXPECT_GT(h.cache->stats().pinned_blocks, 0u);  // the movers' pins
    for (auto& store : h.stores) store->step_all();
    h.cache->poll();
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
    // What was read stays, for whoever asks next.
    const LeaseId b = h.acquire(prompt);
    EXPECT_EQ(h.cache->info(b).tokens_by_tier[0], 96u);
    h.expect_pages(b, prompt, {});
    h.cache->release(b);
}

TEST(Cache, RefusesWhatCanNeverFitAndSaysSo) {
    Harness h(16);
    const auto lease = h.cache->acquire({some_tokens(16 * 17, 1), "", "", 0});
    ASSERT_FALSE(lease.ok());
    EXPECT_EQ(lease.code(), Code::full);
    EXPECT_NE(lease.error().message.find("--kv-memory"), std::string::npos);
    EXPECT_EQ(h.cache->acquire({{}, "", "", 0}).code(), Code::invalid);
    EXPECT_EQ(h.cache->lease_tokens_max(), 16 * kBlock);
}

TEST(Cache, ALeaseGrowsAsFarAsItIsToldThatItCan) {
    Harness h(16);
    const auto prompt = some_tokens(h.cache->lease_tokens_max() - 1, 1);
    h.serve(some_tokens(100, 2));
    const LeaseId id = h.acquire(prompt);
    h.compute(id, prompt, {});
    EXPECT_TRUE(h.cache->grow(id, h.cache->lease_tokens_max()).ok());
    h.cache->release(id);
}

TEST(Cache, GrowFailsOnlyWhenEverythingIsPinned) {
    Harness h(16, [] {
        KvLayout layout;
        layout.groups.push_back({KvKind::full, 0, {0}, 1, 16});
        return layout;
    }());
    const auto a = some_tokens(8 * kBlock, 1);
    const auto b = some_tokens(8 * kBlock, 2);
    const LeaseId first = h.acquire(a);
    h.compute(first, a, {});
    const LeaseId second = h.acquire(b);
    h.compute(second, b, {});
    EXPECT_FALSE(h.cache->has_room(1));
    EXPECT_EQ(h.cache->grow(second, 9 * kBlock).code(), Code::full);
    h.settle_stores();
    h.cache->release(first);
    EXPECT_TRUE(h.cache->grow(second, 9 * kBlock).ok());
    h.cache->release(second);
}

TEST(Cache, ReportsLeasesPastTheirDeadline) {
    Harness h(64);
    const auto prompt = some_tokens(40, 1);
    auto lease = h.cache->acquire({prompt, "", "", h.clock.monotonic_ns() + 10});
    ASSERT_TRUE(lease.ok());
    EXPECT_TRUE(h.cache->poll().empty());
    h.clock.advance(10);
    EXPECT_EQ(h.cache->poll(), std::vector<LeaseId>{*lease});
    h.cache->release(*lease);
}

TEST(Cache, OffMeansNothingIsKept) {
    Harness h(64);
    h.options.enabled = false;
    h.open();
    const auto prompt = some_tokens(100, 1);
    for (int i = 0; i < 2; ++i) {
        const LeaseId id = h.acquire(prompt);
        EXPECT_EQ(h.cache->info(id).cached_tokens, 0u);
        EXPECT_EQ(h.cache->info(id).miss, MissReason::cache_off);
        h.compute(id, prompt, {});
        h.cache->release(id);
    }
    EXPECT_EQ(h.cache->stats().g1_used_bytes, 0u);
}

}  // namespace
}  // namespace quire
