#include "tier/disk/health.h"

#include <algorithm>

namespace quire {

bool Health::fail(const std::string& why) {
    std::lock_guard lock(mutex_);
    delay_ns_ = std::clamp(delay_ns_ * 2, retry_min_ns_, retry_max_ns_);
    retry_at_ns_.store(clock_.monotonic_ns() + delay_ns_);
    why_ = why;
    return !degraded_.exchange(true);
}

void Health::fail_for_good(const std::string& why) {
    std::lock_guard lock(mutex_);
    retry_at_ns_.store(INT64_MAX);
    why_ = why;
    degraded_.store(true);
}

bool Health::recover() {
    if (!degraded_.load()) return false;
    std::lock_guard lock(mutex_);
    delay_ns_ = 0;
    why_.clear();
    return degraded_.exchange(false);
}

std::string Health::why() const {
    std::lock_guard lock(mutex_);
    return why_;
}

bool Health::may_write() const {
    return !degraded_.load() || clock_.monotonic_ns() >= retry_at_ns_.load();
}

}  // namespace quire
