// Threads that start a measured piece of work together, as an inference step's threads do.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace quire::kernels::bench {

// n threads (the caller is number 0) that live as long as the object and meet by spinning.
class Team {
 public:
    explicit Team(int n) : n_(n) {
        for (int t = 1; t < n; ++t)
            // tidy: allow(thread): a bench's own threads, joined by the destructor
            threads_.emplace_back(std::thread([this, t] { serve(t); }));
    }
    ~Team() {
        stopping_ = true;
        meet();
        for (auto& thread : threads_) thread.join();
    }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return n_; }

    // Runs work(t) on every thread; returns when all have.
    void run(const std::function<void(int)>& work) {
        work_ = &work;
        meet();
        work(0);
        meet();
    }

    // Waits for all threads; may be called inside work, by all of them.
    void meet() {
        const int generation = generation_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == n_ - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            generation_.fetch_add(1, std::memory_order_release);
            return;
        }
        for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins)
            if (spins > 20000) std::this_thread::yield();
    }

 private:
    void serve(int t) {
        for (;;) {
            meet();
            if (stopping_) return;
            (*work_)(t);
            meet();
        }
    }

    const int n_;
    const std::function<void(int)>* work_ = nullptr;
    bool stopping_ = false;
    std::atomic<int> arrived_ = 0;
    std::atomic<int> generation_ = 0;
    // tidy: allow(thread): see the constructor
    std::vector<std::thread> threads_;
};

}  // namespace quire::kernels::bench
