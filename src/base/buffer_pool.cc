#include "base/buffer_pool.h"

#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace quire {

PooledBuffer::~PooledBuffer() {
    if (pool_ != nullptr) pool_->give_back(bytes_.data());
}

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

Result<std::unique_ptr<BufferPool>> BufferPool::create(size_t buffer_bytes, size_t count,
                                                       bool prefault) {
    constexpr size_t kMost = std::numeric_limits<size_t>::max() / 4;
    if (buffer_bytes == 0 || count == 0 || buffer_bytes > kMost ||
        count > kMost / (buffer_bytes + kAlign))
        return make_error(Code::invalid, "a buffer pool of " + std::to_string(count) +
                                             " buffers of " + std::to_string(buffer_bytes) +
                                             " bytes");
    const size_t rounded = (buffer_bytes + kAlign - 1) / kAlign * kAlign;
    Result<Arena> arena = Arena::create({.bytes = rounded * count, .prefault = prefault});
    QUIRE_TRY(arena);
    return std::unique_ptr<BufferPool>(new BufferPool(std::move(*arena), rounded, count));
}

BufferPool::BufferPool(Arena arena, size_t buffer_bytes, size_t count)
    : arena_(std::move(arena)), buffer_bytes_(buffer_bytes), count_(count) {
    for (size_t i = count; i > 0; --i) free_.push_back(arena_.data() + (i - 1) * buffer_bytes_);
}

BufferPool::~BufferPool() {
    QUIRE_CHECK(free_.size() == count_, "a buffer outlived its pool");
}

PooledBuffer BufferPool::take_free() {
    std::byte* data = free_.back();
    free_.pop_back();
    return {this, {data, buffer_bytes_}};
}

std::optional<PooledBuffer> BufferPool::try_take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::nullopt;
    return take_free();
}

Result<PooledBuffer> BufferPool::take(int64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    const bool got = returned_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                        [this] { return !free_.empty(); });
    --waiting_;
    if (got) return take_free();
    return make_error(Code::timeout, "none of " + std::to_string(count_) + " buffers of " +
                                         format_bytes(buffer_bytes_) + " came free in " +
                                         format_duration(timeout_ns));
}

BufferPoolStats BufferPool::stats() const {
    std::lock_guard lock(mutex_);
    return {count_, count_ - free_.size(), waiting_};
}

void BufferPool::give_back(std::byte* data) {
    {
        std::lock_guard lock(mutex_);
        free_.push_back(data);
    }
    returned_.notify_one();
}

}  // namespace quire
