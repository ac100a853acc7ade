// Whether the work for a request is still wanted: not when its client has left, the server is
// shutting down or its time is over.
//
// Shared by the coroutine, which learns these things, and by the worker, which asks. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/result.h"

namespace quire::server {

class RequestStop {
 public:
    // `draining` outlives this.
    RequestStop(const std::atomic<bool>& draining, int64_t deadline_ns)
        : draining_(draining), deadline_ns_(deadline_ns) {}

    void client_left() { left_.store(true, std::memory_order_relaxed); }

    // ok: go on; cancelled; timeout.
    Code code() const {
        if (left_.load(std::memory_order_relaxed)) return Code::cancelled;
        if (draining_.load(std::memory_order_relaxed)) return Code::cancelled;
        if (system_clock().monotonic_ns() >= deadline_ns_) return Code::timeout;
        return Code::ok;
    }

 private:
    const std::atomic<bool>& draining_;
    int64_t deadline_ns_;
    std::atomic<bool> left_{false};
};

}  // namespace quire::server
