// What this machine can do with the same bytes: one plain copy, one direct sequential read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/arena.h"
#include "base/executor.h"
#include "base/io.h"
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

// A file of `bytes` in a folder, read front to back with O_DIRECT, the next requests already in
// flight, into one touched buffer.
class ReadCeiling {
 public:
    // io, full: the file cannot be written; unsupported: the file system knows no O_DIRECT.
    static Result<std::unique_ptr<ReadCeiling>> create(const std::string& dir, size_t bytes);
    ~ReadCeiling();
    // io when a read fails or ends short.
    Result<double> seconds();

 private:
    ReadCeiling(std::string path, int fd, Arena buffer, std::unique_ptr<IoEngine> io)
        : path_(std::move(path)), fd_(fd), buffer_(std::move(buffer)), io_(std::move(io)) {}
    std::vector<IoRequest> requests(IoOp op) const;

    std::string path_;
    int fd_;
    Arena buffer_;
    std::unique_ptr<IoEngine> io_;
};

}  // namespace quire::bench
