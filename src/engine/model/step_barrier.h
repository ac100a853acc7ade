// Where the threads of a step wait for each other between its operations.
//
// Rounds of signals, no thread above the others: in a round of stride s a thread says at a cache
// line of its own that it is there and waits for the three that stand s, 2 s and 3 s before it.
// After it each knows of 4 s threads, so sixteen need two rounds. No line has more than one writer
// and three readers; ggml's barrier counts at one line for all: with sixteen threads that costs
// some microseconds, two hundred times a token.
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
          lines_(std::make_unique<Line[]>(static_cast<size_t>(rounds_of(n_threads) * n_threads))) {}

    // REQUIRES: called by each of the threads, 0 to n_threads - 1, equally often. What any of them
    // did before, all see afterwards.
    void wait(int thread) {
        Line* round = lines_.get();
        for (int stride = 1; stride < n_threads_; stride *= kRadix, round += n_threads_) {
            const uint32_t turn = round[thread].turn.load(std::memory_order_relaxed) + 1;
            round[thread].turn.store(turn, std::memory_order_release);
            for (int i = 1; i < kRadix && i * stride < n_threads_; ++i) {
                const int before = thread - i * stride;
                await(round[before < 0 ? before + n_threads_ : before], turn);
            }
        }
    }

 private:
    static constexpr int kRadix = 4;
    // Some hundred microseconds; who is that late may need the core.
    static constexpr int kSpins = 4096;
    struct alignas(64) Line {
        std::atomic<uint32_t> turn{0};
    };

    static int rounds_of(int n_threads) {
        int rounds = 0;
        for (int stride = 1; stride < n_threads; stride *= kRadix) ++rounds;
        return rounds;
    }

    // A thread may be a turn ahead: it goes on when it has heard of all, whoever has not yet.
    static void await(const Line& line, uint32_t turn) {
        for (int i = 0; static_cast<int32_t>(line.turn.load(std::memory_order_acquire) - turn) < 0;
             ++i) {
            if (i >= kSpins) {
                std::this_thread::yield();
                continue;
            }
#if defined(__x86_64__)
            _mm_pause();
#endif
        }
    }

    const int n_threads_;
    std::unique_ptr<Line[]> lines_;  // [rounds][threads]
};

}  // namespace quire
