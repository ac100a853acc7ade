// What ought to be stored is stored, however little may be under way at once.
#include <gtest/gtest.h>

#include "cache/cache.h"
#include "cache/testing/harness.h"

namespace quire {
namespace {

using testing::Harness;
using testing::some_tokens;

constexpr size_t kPromptTokens = 30 * 16 + 5;

KvLayout one_group() {
    KvLayout layout;
    layout.groups.push_back({KvKind::full, 0, {0}, 1, 16});
    return layout;
}

class Due : public ::testing::Test {
 protected:
    Due() : h(64, one_group(), {Tier::g3}) {}
    // A request whose turns find somebody waiting for a first token all the time.
    void serve_busy(TokenSpan prompt) {
        const LeaseId id = h.acquire(prompt);
        h.settle(id);
        h.compute(id, prompt, {}, 64, [&] { h.cache->poll(true); });
        h.cache->release(id);
    }
    uint64_t stored() const { return h.cache->stats().stored_blocks[2]; }
    uint64_t busy() const { return h.cache->stats().store_busy[2]; }

    Harness h;
};

TEST_F(Due, OnePromptOverTheBoundIsStoredWhole) {
    h.options.pending_store_bytes_max = 2 * h.options.layout.slab_bytes(0);
    h.open();
    serve_busy(some_tokens(kPromptTokens, 1));
    h.settle_stores();
    EXPECT_EQ(stored(), 30u);
    EXPECT_EQ(h.blocks_in(0), 30u);
    EXPECT_EQ(busy(), 0u);
}

TEST_F(Due, PromptsThatPushEachOtherOutOfG1AreStoredWhole) {
    for (int32_t seed = 1; seed <= 8; ++seed) serve_busy(some_tokens(kPromptTokens, seed));
    EXPECT_GT(h.cache->stats().evicted_blocks, 0u);
    h.settle_stores();
    EXPECT_EQ(stored(), 8 * 30u);
    EXPECT_EQ(h.blocks_in(0), 8 * 30u);
    EXPECT_EQ(busy(), 0u);
    EXPECT_EQ(h.stores[0]->unsealed_puts, 0);
}

TEST_F(Due, EvenBlocksWhoseStoresNeverBeganAreStored) {
    for (int32_t seed = 1; seed <= 4; ++seed) {
        const auto prompt = some_tokens(kPromptTokens, seed);
        const LeaseId id = h.acquire(prompt);
        h.compute(id, prompt, {});  // no poll in between
        h.cache->release(id);
    }
    h.settle_stores();
    EXPECT_EQ(h.blocks_in(0), 4 * 30u);
}

TEST_F(Due, ATierThatDoesNotAnswerKeepsNobodyFromComputing) {
    h.options.demotion_bytes_max = 0;  // the least there can be: 16 copies
    h.stores[0]->hold_puts = true;
    h.open();
    for (int32_t seed = 1; seed <= 4; ++seed) serve_busy(some_tokens(kPromptTokens, seed));
    const CacheStats stalled = h.cache->stats();
    EXPECT_EQ(stalled.stored_blocks[2], 0u);
    EXPECT_GT(stalled.store_busy[2], 0u);
    EXPECT_EQ(stalled.store_skipped[2], 0u) << "no policy refused anything";
    EXPECT_LE(stalled.pinned_blocks, 64u / 4);
    h.stores[0]->let_puts_go();
    h.settle_stores();
    EXPECT_EQ(stored() + busy(), 4 * 30u);
    EXPECT_EQ(h.blocks_in(0), stored());
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
}

TEST_F(Due, AFlushOfG1DoesNotKeepABlockFromTheDisk) {
    const auto prompt = some_tokens(kPromptTokens, 1);
    const LeaseId id = h.acquire(prompt);
    h.compute(id, prompt, {});
    h.cache->release(id);
    EXPECT_EQ(h.cache->flush(Tier::g1), 30u);
    h.settle_stores();
    EXPECT_EQ(h.blocks_in(0), 30u);
}

TEST_F(Due, DestructionStoresWhatIsOwed) {
    h.options.pending_store_bytes_max = 1;
    h.open();
    serve_busy(some_tokens(kPromptTokens, 1));
    h.cache.reset();
    EXPECT_EQ(h.blocks_in(0), 30u);
}

TEST_F(Due, SpilledBlocksGoDownThoughTheirPagesAreNeededAtOnce) {
    h.admit = "none";
    h.open();
    const auto young = some_tokens(kPromptTokens, 1);
    const LeaseId preempted = h.acquire(young);
    h.compute(preempted, young, {});
    h.cache->spill(preempted);
    h.cache->release(preempted);
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u) << "nobody is kept from the pages";
    const auto old = some_tokens(60 * 16, 2);
    const LeaseId id = h.acquire(old);
    h.compute(id, old, {});
    h.cache->release(id);
    h.settle_stores();
    EXPECT_EQ(h.blocks_in(0), 30u);
}

// Of an older prompt that is owed and a younger one that is not, G1 gives up the younger.
TEST_F(Due, OwedBlocksAreGivenUpLast) {
    h.admit = "second-use";
    h.open();
    const auto compute = [&](const std::vector<TokenId>& prompt) {
        const LeaseId id = h.acquire(prompt);
        h.compute(id, prompt, {});
        h.cache->release(id);
    };
    const auto owed = some_tokens(kPromptTokens, 1);
    compute(owed);
    compute(owed);
    EXPECT_GT(h.cache->stats().pending_stores, 0u);
    const auto other = some_tokens(kPromptTokens, 2);
    compute(other);
    compute(some_tokens(kPromptTokens, 3));
    EXPECT_EQ(h.cache->explain(owed, {}).blocks_by_tier[0], 30u);
    EXPECT_LT(h.cache->explain(other, {}).blocks_by_tier[0], 30u);
}

}  // namespace
}  // namespace quire
