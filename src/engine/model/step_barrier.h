// Where the threads of a step wait for each other between its operations.
//
// Threads arrive in groups of four, each at a cache line of its own, so that no line is written by
// more than one of them; one line lets all of them go. ggml's barrier counts at one line: with
// sixteen threads that costs some microseconds, two hundred times a token.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire {

class StepBarrier {
 public:
    explicit StepBarrier(int n_threads)
        : n_threads_(n_threads),
          arrived_(std::make_unique<Line[]>(static_cast<size_t>(n_threads))) {}

    // REQUIRES: called by each of the threads, 0 to n_threads - 1, equally often. What any of them
    // did before, all see afterwards.
    void wait(int thread) {
        std::atomic<uint32_t>& own = arrived_[thread].turn;
        const uint32_t turn = own.load(std::memory_order_relaxed) + 1;
        if (thread % kGroup == 0) {
            await(thread + 1, 1, thread + kGroup, turn);
            if (thread == 0) await(kGroup, kGroup, n_threads_, turn);
        }
        own.store(turn, std::memory_order_release);
        if (thread == 0)
            leaves_.turn.store(turn, std::memory_order_release);
        else
            await(leaves_, turn);
    }

 private:
    static constexpr int kGroup = 4;
    // Some hundred microseconds; who is that late may need the core.
    static constexpr int kSpins = 4096;
    struct alignas(64) Line {
        std::atomic<uint32_t> turn{0};
    };

    static void await(const Line& line, uint32_t turn) {
        for (int i = 0; line.turn.load(std::memory_order_acquire) != turn; ++i) {
            if (i >= kSpins) {
                std::this_thread::yield();
                continue;
            }
#if defined(__x86_64__)
            _mm_pause();
#endif
        }
    }
    // Every `stride`-th thread in [first, last).
    void await(int first, int stride, int last, uint32_t turn) const {
        for (int t = first; t < last && t < n_threads_; t += stride) await(arrived_[t], turn);
    }

    const int n_threads_;
    std::unique_ptr<Line[]> arrived_;
    Line leaves_;
};

}  // namespace quire
