// Time as an injected dependency, so that tests and the simulator own it.
#pragma once

#include <atomic>
#include <cstdint>

namespace quire {

class Clock {
 public:
    virtual ~Clock() = default;
    // Nanoseconds since an arbitrary start; never goes back. Any thread.
    virtual int64_t monotonic_ns() const = 0;
    // Nanoseconds since the Unix epoch, for people and headers only; may jump. Any thread.
    virtual int64_t wall_ns() const = 0;
};

// The machine's clock. Stateless; one shared instance lives as long as the program.
const Clock& system_clock();

// A clock that moves only when told to. Any thread.
class ManualClock final : public Clock {
 public:
    explicit ManualClock(int64_t start_ns = 0) : now_ns_(start_ns) {}
    int64_t monotonic_ns() const override { return now_ns_.load(std::memory_order_relaxed); }
    int64_t wall_ns() const override { return monotonic_ns(); }
    void advance(int64_t ns) { now_ns_.fetch_add(ns, std::memory_order_relaxed); }

 private:
    std::atomic<int64_t> now_ns_;
};

}  // namespace quire
