// Health: whether a store may write, why not, and when to try again. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace quire {

class Health {
 public:
    Health(const Clock& clock, int64_t retry_min_ns, int64_t retry_max_ns)
        : clock_(clock), retry_min_ns_(retry_min_ns), retry_max_ns_(retry_max_ns) {}

    // A write failed: none is tried until the back-off, which doubles each time, is over. Returns
    // whether the store was healthy before.
    bool fail(const std::string& why);
    // Writing can never work here.
    void fail_for_good(const std::string& why);
    // A write worked. Returns whether the store was degraded before.
    bool recover();

    bool degraded() const { return degraded_.load(); }
    std::string why() const;
    // True when healthy, or when the back-off is over.
    bool may_write() const;

 private:
    const Clock& clock_;
    const int64_t retry_min_ns_;
    const int64_t retry_max_ns_;
    std::atomic<bool> degraded_{false};
    std::atomic<int64_t> retry_at_ns_{0};
    mutable std::mutex mutex_;
    std::string why_;
    int64_t delay_ns_ = 0;
};

}  // namespace quire
