#include "index/block_pool.h"

#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "index/edge_table.h"

namespace quire {
namespace {

struct Fixture {
    explicit Fixture(uint32_t capacity)
        : length_previous(capacity),
          next(capacity),
          first(capacity),
          owner(capacity),
          pool({length_previous.data(), next.data(), first.data()}, owner.data(), capacity) {}
    std::vector<uint64_t> length_previous;
    std::vector<uint32_t> next, first, owner;
    BlockPool pool;
};

TEST(BlockPool, HandsOutEveryPositionOnceAndTakesItBack) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto capacity = static_cast<uint32_t>(1 + seed * seed * 7);
        Fixture f(capacity);
        std::mt19937_64 rng(seed);
        std::set<uint32_t> used;
        for (int step = 0; step < 3000; ++step) {
            const uint64_t what = rng() % 4;
            if (what == 0) {
                const auto want = static_cast<uint32_t>(1 + rng() % 40);
                const BlockRun run = f.pool.take(want);
                ASSERT_EQ(run.length == 0, used.size() == capacity);
                ASSERT_LE(run.length, want);
                for (uint32_t i = 0; i < run.length; ++i) {
                    ASSERT_TRUE(used.insert(run.start + i).second);
                }
            } else if (what == 1 && !used.empty()) {
                const uint32_t at =
                    *std::next(used.begin(), static_cast<int>(rng() % used.size())) + 1;
                if (at < capacity) {
                    const uint32_t got = f.pool.take_at(at, static_cast<uint32_t>(1 + rng() % 5));
                    ASSERT_EQ(got == 0, used.count(at) == 1);
                    for (uint32_t i = 0; i < got; ++i) ASSERT_TRUE(used.insert(at + i).second);
                }
            } else {
                for (int n = 0; n < 6 && !used.empty(); ++n) {
                    const auto it = std::next(used.begin(), static_cast<int>(rng() % used.size()));
                    f.pool.give(*it);
                    used.erase(it);
                }
            }
            ASSERT_EQ(f.pool.free_blocks(), capacity - used.size());
            const Status sound = f.pool.check();
            ASSERT_TRUE(sound.ok()) << sound.error().message;
        }
    }
}

TEST(BlockPool, KeepsAWholeRunTogetherWhileItCan) {
    Fixture f(1000);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(f.pool.take(100).length, 100u);
    EXPECT_EQ(f.pool.free_blocks(), 100u);
    uint32_t got = 0, runs = 0;
    for (; got < 100; ++runs) got += f.pool.take(100 - got).length;
    EXPECT_LE(runs, 4u);
    EXPECT_EQ(f.pool.take(1).length, 0u);
}

TEST(EdgeTable, AgreesWithASetOverGrowthAndErasure) {
    // Hashes that share their low bits, so that probes run long and wrap.
    std::vector<PrefixHash> hashes;
    for (uint64_t i = 0; i < 400; ++i) hashes.push_back({{i, ((i % 5) << 40) + 62 + i % 3}});
    const auto hash_of = [&](uint32_t block) { return hashes[block]; };
    EdgeTable table(0);
    std::set<uint32_t> in;
    std::mt19937_64 rng(2);
    for (int step = 0; step < 20000; ++step) {
        const auto block = static_cast<uint32_t>(rng() % hashes.size());
        const uint32_t parent = block % 7;
        if (in.erase(block) > 0) {
            table.erase(block, parent, hash_of);
        } else {
            table.grow_if_full(hash_of);
            table.insert(block, parent, hashes[block]);
            in.insert(block);
        }
        const auto other = static_cast<uint32_t>(rng() % hashes.size());
        const uint32_t found = table.find(other % 7, hashes[other],
                                          [&](uint32_t b) { return hashes[b] == hashes[other]; });
        ASSERT_EQ(found, in.count(other) == 1 ? other : EdgeTable::kNone);
        ASSERT_EQ(table.size(), in.size());
    }
}

}  // namespace
}  // namespace quire
