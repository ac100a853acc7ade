#include "bench/throttled_io.h"

#include <algorithm>
#include <chrono>

namespace quire::bench {

ThrottledIo::ThrottledIo(std::unique_ptr<IoEngine> inner, double bytes_per_s)
    : ns_per_byte_(1e9 / bytes_per_s), inner_(std::move(inner)), thread_([this] { run(); }) {}

ThrottledIo::~ThrottledIo() {
    inner_.reset();  // after it nothing more comes
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

Status ThrottledIo::submit(std::span<const IoRequest> batch, IoDone done) {
    uint64_t bytes = 0;
    for (const IoRequest& request : batch)
        if (request.op == IoOp::read) bytes += io_bytes(request);
    int64_t at_ns = 0;
    if (bytes > 0) {
        std::lock_guard lock(mutex_);
        link_free_ns_ = std::max(link_free_ns_, system_clock().monotonic_ns()) +
                        static_cast<int64_t>(static_cast<double>(bytes) * ns_per_byte_);
        at_ns = link_free_ns_;
    }
    return inner_->submit(
        batch, [this, at_ns, done = std::move(done)](uint64_t tag, const Result<size_t>& result) {
            {
                std::lock_guard lock(mutex_);
                late_.push_back({at_ns, tag, result, done});
            }
            changed_.notify_all();
        });
}

void ThrottledIo::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stopping_ || !late_.empty(); });
        if (late_.empty()) return;
        const auto first = std::ranges::min_element(late_, {}, &Late::at_ns);
        const int64_t wait_ns = first->at_ns - system_clock().monotonic_ns();
        if (wait_ns > 0) {
            changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
            continue;  // an earlier one may have come
        }
        Late now = std::move(*first);
        late_.erase(first);
        lock.unlock();
        now.done(now.tag, now.result);
        lock.lock();
    }
}

}  // namespace quire::bench
