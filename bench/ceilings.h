// What this machine can do with the same bytes in memory: one plain copy. For the disk there is
// tier/disk/disk_reference.h.
#pragma once

#include <cstdint>
#include <memory>

#include "base/arena.h"
#include "base/executor.h"
#include "base/result.h"

namespace quire::bench {

// Pushes out of the CPU's caches whatever was in them, so that two measurements start alike.
class CacheSweep {
 public:
    // full when memory is short.
    static Result<CacheSweep> create();
    void run();

 private:
    explicit CacheSweep(Arena arena) : arena_(std::move(arena)) {}
    Arena arena_;
    uint8_t round_ = 0;
};

// memcpy of `bytes` between two touched buffers, cut evenly over the threads of a pool.
class CopyCeiling {
 public:
    static Result<std::unique_ptr<CopyCeiling>> create(size_t bytes, uint32_t threads);
    double seconds();

 private:
    CopyCeiling(Arena from, Arena to, uint32_t threads)
        : from_(std::move(from)),
          to_(std::move(to)),
          threads_(threads),
          pool_("quire-copy", threads, threads) {}

    Arena from_;
    Arena to_;
    uint32_t threads_;
    ThreadPool pool_;  // last: its threads use the buffers
};

}  // namespace quire::bench
