// BufferPool: a bounded number of equal, aligned buffers, lent out and given back by themselves.
//
// All memory is taken when the pool is made. The pool outlives its buffers. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/result.h"

namespace quire {

class BufferPool;

// One lent buffer; goes back on destruction. Move-only. Contents are whatever was there.
class PooledBuffer {
 public:
    PooledBuffer() = default;
    ~PooledBuffer();
    PooledBuffer(PooledBuffer&& other) noexcept;
    PooledBuffer& operator=(PooledBuffer&& other) noexcept;

    std::span<std::byte> bytes() const { return bytes_; }
    explicit operator bool() const { return pool_ != nullptr; }

 private:
    friend class BufferPool;
    PooledBuffer(BufferPool* pool, std::span<std::byte> bytes) : pool_(pool), bytes_(bytes) {}

    BufferPool* pool_ = nullptr;
    std::span<std::byte> bytes_;
};

struct BufferPoolStats {
    size_t capacity = 0;
    size_t lent = 0;
    size_t waiting = 0;  // threads in take()
};

class BufferPool {
 public:
    static constexpr size_t kAlign = 4096;

    // Buffers of `buffer_bytes` rounded up to kAlign. invalid for zeros, full as Arena.
    static Result<std::unique_ptr<BufferPool>> create(size_t buffer_bytes, size_t count,
                                                      bool prefault = false);
    ~BufferPool();

    size_t buffer_bytes() const { return buffer_bytes_; }
    std::optional<PooledBuffer> try_take();
    // Waits up to `timeout_ns` for a buffer; timeout after that.
    Result<PooledBuffer> take(int64_t timeout_ns);
    BufferPoolStats stats() const;

    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

 private:
    friend class PooledBuffer;
    BufferPool(Arena arena, size_t buffer_bytes, size_t count);
    PooledBuffer take_free();  // REQUIRES: mutex_ held, a buffer free
    void give_back(std::byte* data);

    Arena arena_;
    size_t buffer_bytes_;
    size_t count_;
    mutable std::mutex mutex_;
    std::condition_variable returned_;
    std::vector<std::byte*> free_;  // the last given back is lent next: it is warm
    size_t waiting_ = 0;
};

}  // namespace quire
