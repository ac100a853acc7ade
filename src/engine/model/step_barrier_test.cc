#include "engine/model/step_barrier.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr uint32_t kTurns = 40;

// Each thread writes its cell, waits, and reads all cells, which are plain memory; a second wait
// keeps the next turn's writes away from them. Returns how many cells were not this turn's.
uint32_t count_stale(int n_threads) {
    struct alignas(64) Cell {
        uint32_t turn = 0;
        uint32_t stale = 0;
    };
    StepBarrier barrier(n_threads);
    std::vector<Cell> cells(static_cast<size_t>(n_threads));
    const auto work = [&](int thread) {
        Cell& own = cells[static_cast<size_t>(thread)];
        for (uint32_t turn = 1; turn <= kTurns; ++turn) {
            own.turn = turn;
            barrier.wait(thread);
            for (const Cell& cell : cells) own.stale += cell.turn == turn ? 0 : 1;
            barrier.wait(thread);
        }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < n_threads; ++t) threads.emplace_back(work, t);
    work(0);
    for (std::thread& thread : threads) thread.join();
    uint32_t stale = 0;
    for (const Cell& cell : cells) stale += cell.stale;
    return stale;
}

class StepBarrierTest : public testing::TestWithParam<int> {};

TEST_P(StepBarrierTest, NobodyGoesOnBeforeAllHaveArrived) {
    EXPECT_EQ(count_stale(GetParam()), 0u);
}

INSTANTIATE_TEST_SUITE_P(Threads, StepBarrierTest,
                         testing::Values(1, 2, 3, 4, 5, 8, 11, 12, 16, 17, 21));

}  // namespace
}  // namespace quire
