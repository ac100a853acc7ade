// Each policy's own rule, on sequences short enough to follow by hand.
#include <vector>

#include <gtest/gtest.h>

#include "policy/evict.h"
#include "policy/ghost_set.h"

namespace quire {
namespace {

using Ids = std::vector<uint32_t>;

class Hand {
 public:
    Hand(std::string_view name, uint32_t capacity) : policy_(find_eviction(name)->make(capacity)) {}

    // A new block and the end of its request.
    void add(uint32_t id) {
        policy_->insert(id, {{id, id + 1000}, 0, false, 0});
        policy_->touch(id);
    }
    void use(uint32_t id) { policy_->touch(id); }
    Ids take(size_t count, Ids held = {}) {
        Ids out(count);
        held_ = std::move(held);
        const Evictable ask{[](void* self, uint32_t id) {
                                const Ids& h = static_cast<Hand*>(self)->held_;
                                return std::find(h.begin(), h.end(), id) == h.end();
                            },
                            this};
        out.resize(policy_->take_victims(out, ask));
        return out;
    }

 private:
    std::unique_ptr<EvictionPolicy> policy_;
    Ids held_;
};

TEST(Lru, TakesTheLeastRecentAndSkipsTheHeld) {
    Hand lru("lru", 8);
    for (uint32_t id = 0; id < 5; ++id) lru.add(id);
    lru.use(0);
    EXPECT_EQ(lru.take(1, {1}), Ids({2}));
    EXPECT_EQ(lru.take(2), Ids({1, 3}));
    EXPECT_EQ(lru.take(5), Ids({4, 0}));
}

TEST(Lru, AChainTouchedLastToFirstLeavesFromItsEnd) {
    Hand lru("lru", 8);
    for (uint32_t id = 0; id < 4; ++id) lru.add(id);
    for (uint32_t id = 4; id > 0; --id) lru.use(id - 1);
    EXPECT_EQ(lru.take(4), Ids({3, 2, 1, 0}));
}

TEST(Sieve, TheHandSparesWhatWasUsedOnce) {
    Hand sieve("sieve", 8);
    for (uint32_t id = 0; id < 5; ++id) sieve.add(id);
    sieve.use(0);
    sieve.use(2);
    // The hand clears 0, takes 1, clears 2, takes 3; then comes to 4, and round again to 0.
    EXPECT_EQ(sieve.take(2), Ids({1, 3}));
    EXPECT_EQ(sieve.take(3), Ids({4, 0, 2}));
}

TEST(S3Fifo, OneHitWondersNeverReachTheMainQueue) {
    Hand s3("s3fifo", 10);  // a small queue of 1
    for (uint32_t id = 0; id < 6; ++id) s3.add(id);
    s3.use(1);
    s3.use(4);
    EXPECT_EQ(s3.take(3), Ids({0, 2, 3}));  // 1 passed on to main
    s3.add(6);
    EXPECT_EQ(s3.take(1), Ids({5}));  // and so did 4
}

TEST(S3Fifo, AGhostReturnsToTheMainQueue) {
    Hand s3("s3fifo", 10);
    for (uint32_t id = 0; id < 3; ++id) s3.add(id);
    EXPECT_EQ(s3.take(1), Ids({0}));
    s3.add(0);  // comes back: straight to main
    s3.add(3);
    EXPECT_EQ(s3.take(2), Ids({1, 2}));
    s3.add(4);
    EXPECT_EQ(s3.take(1), Ids({3}));  // the small queue goes first
}

TEST(LfuDa, TakesTheLeastUsedThenTheLeastRecent) {
    Hand lfu("lfu-da", 8);
    for (uint32_t id = 0; id < 4; ++id) lfu.add(id);
    lfu.use(0);
    lfu.use(0);
    lfu.use(2);
    EXPECT_EQ(lfu.take(4), Ids({1, 3, 2, 0}));
}

TEST(LfuDa, OldFameFades) {
    Hand lfu("lfu-da", 8);
    lfu.add(0);
    for (int i = 0; i < 5; ++i) lfu.use(0);  // priority 6
    // Each round of newcomers is one above the last victim, until the once famous is the lowest.
    bool gone = false;
    for (uint32_t round = 0; round < 12 && !gone; ++round) {
        lfu.add(1);
        lfu.add(2);
        const Ids victims = lfu.take(2);
        gone = std::find(victims.begin(), victims.end(), 0u) != victims.end();
        if (gone) {
            EXPECT_GE(round, 3u);
        }
    }
    EXPECT_TRUE(gone);
}

TEST(LfuDa, BlockedBlocksSurviveManyAges) {
    // The priorities form a ring; a block held for more than its length must still come out right.
    Hand lfu("lfu-da", 4);
    lfu.add(0);
    for (int i = 0; i < 3000; ++i) {
        lfu.add(1);
        ASSERT_EQ(lfu.take(1, {0}), Ids({1})) << i;
    }
    EXPECT_EQ(lfu.take(2), Ids({0}));
}

TEST(GhostSet, RemembersTheLastOnesOnly) {
    GhostSet ghosts(3);
    for (uint64_t i = 0; i < 5; ++i) ghosts.add({i, i * 64});  // all probe the same entry
    EXPECT_EQ(ghosts.size(), 3u);
    EXPECT_FALSE(ghosts.take({0, 0}));
    EXPECT_FALSE(ghosts.take({1, 64}));
    EXPECT_TRUE(ghosts.take({3, 192}));
    EXPECT_FALSE(ghosts.take({3, 192}));
    ghosts.add({2, 128});  // again: no duplicate
    EXPECT_EQ(ghosts.size(), 2u);
    for (uint64_t i = 10; i < 2000; ++i) ghosts.add({i, i % 7 * 64 + i});
    EXPECT_EQ(ghosts.size(), 3u);
}

}  // namespace
}  // namespace quire
