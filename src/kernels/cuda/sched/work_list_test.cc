#include "kernels/cuda/sched/work_list.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace quire::kernels::cuda {
namespace {

std::vector<int32_t> first_tiles(const std::vector<int32_t>& tiles) {
    std::vector<int32_t> first = {0};
    for (const int32_t n : tiles) first.push_back(first.back() + n);
    return first;
}

// Every tile once, as many for each worker, partial results at places of their own, and as many
// workers to a merge as it waits for.
void check_list(const std::vector<int32_t>& tiles, int32_t n_heads, int32_t n_workers) {
    const std::vector<int32_t> first = first_tiles(tiles);
    const auto n_requests = static_cast<int32_t>(tiles.size());
    const WorkList list(first.data(), n_requests, n_heads, n_workers);
    std::map<std::pair<int32_t, int32_t>, std::vector<bool>> seen;
    std::map<std::pair<int32_t, int32_t>, int32_t> shares;
    std::set<int32_t> slots;
    for (int32_t w = 0; w < n_workers; ++w) {
        SegmentWalker walker(list, w);
        Segment s;
        int64_t own = 0;
        while (walker.next(&s)) {
            const int32_t n = tiles[static_cast<size_t>(s.request)];
            ASSERT_LT(s.head, n_heads);
            ASSERT_LT(s.begin, s.end);
            ASSERT_LE(s.end, n);
            own += s.end - s.begin;
            auto& marks = seen[{s.request, s.head}];
            marks.resize(static_cast<size_t>(n));
            for (int32_t t = s.begin; t < s.end; ++t) {
                ASSERT_FALSE(marks[static_cast<size_t>(t)]) << "twice";
                marks[static_cast<size_t>(t)] = true;
            }
            ++shares[{s.request, s.head}];
            ASSERT_EQ(s.whole, list.workers_of(s.request, s.head) == 1);
            if (s.whole) continue;
            ASSERT_LT(s.slot, 2 * n_workers);
            ASSERT_TRUE(slots.insert(s.slot).second) << "two partial results at one place";
        }
        const int64_t fair = list.busy() == 0 ? 0 : list.tiles() / list.busy();
        ASSERT_GE(own, w < list.busy() ? fair : 0);
        ASSERT_LE(own, w < list.busy() ? fair + 1 : 0);
    }
    for (int32_t r = 0; r < n_requests; ++r) {
        for (int32_t h = 0; h < n_heads; ++h) {
            const auto n = static_cast<size_t>(tiles[static_cast<size_t>(r)]);
            ASSERT_EQ((seen[{r, h}]), std::vector<bool>(n, true));
            ASSERT_EQ((shares[{r, h}]), list.workers_of(r, h));
        }
    }
}

TEST(WorkList, CoversEveryTileOnceAndEvenly) {
    std::mt19937_64 rng(20261130);
    for (int round = 0; round < 300; ++round) {
        SCOPED_TRACE(round);
        std::vector<int32_t> tiles(1 + rng() % 40);
        const uint64_t most = 1 + rng() % 200;
        for (int32_t& n : tiles) n = rng() % 8 == 0 ? 0 : static_cast<int32_t>(rng() % most + 1);
        ASSERT_NO_FATAL_FAILURE(check_list(tiles, static_cast<int32_t>(1 + rng() % 16),
                                           static_cast<int32_t>(1 + rng() % 300)));
    }
}

TEST(WorkList, OfNothingOneTileAndVeryManyTiles) {
    check_list({}, 8, 132);
    check_list({0, 0, 0}, 8, 132);
    check_list({1}, 1, 132);
    check_list({1, 0, 1}, 2, 1);
    check_list({100'000, 1}, 8, 264);
}

TEST(WorkList, CountsUpToItsLimit) {
    const std::vector<int32_t> first = first_tiles({16'777'215});
    const WorkList list(first.data(), 1, 128, 2048);
    EXPECT_EQ(list.first_of(2048), list.tiles());
    EXPECT_EQ(list.tiles(), 2'147'483'520);
    EXPECT_EQ(list.worker_of(list.tiles() - 1), 2047);
    for (int32_t w = 0; w < 2048; ++w) ASSERT_EQ(list.worker_of(list.first_of(w)), w);
}

TEST(WorkList, SpansFollowTheWindowOfTheFirstQuery) {
    const auto span = [](int32_t keys, int32_t queries, int32_t window) {
        const KeySpan s = span_of(keys, queries, window);
        return std::pair(s.begin, s.end);
    };
    EXPECT_EQ(span(100, 1, 0), std::pair(0, 100));
    EXPECT_EQ(span(100, 1, 512), std::pair(0, 100));
    EXPECT_EQ(span(1000, 1, 512), std::pair(488, 1000));
    EXPECT_EQ(span(1000, 4, 512), std::pair(485, 1000));
    EXPECT_EQ(tiles_of({488, 1000}, 64), 9);
    EXPECT_EQ(first_tile({488, 1000}, 64), 7);
    EXPECT_EQ(tiles_of({0, 0}, 64), 0);
    EXPECT_EQ(tiles_of({0, 64}, 64), 1);
    EXPECT_EQ(tiles_of({0, 65}, 64), 2);
}

}  // namespace
}  // namespace quire::kernels::cuda
