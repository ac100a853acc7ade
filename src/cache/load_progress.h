// LoadProgress: how many layers of one load have landed; movers tell, one thread waits.
//
// Apart from the cache's own state, so that a step can wait for a layer while the cache's thread is
// inside it and nothing else of the cache may change.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace quire {

enum class Landing : uint8_t { landed, failed, timeout };

class LoadProgress {
 public:
    explicit LoadProgress(uint32_t layers) : all_(layers) {}

    // Any thread.
    void landed(uint32_t layers) {
        {
            std::lock_guard lock(mutex_);
            if (layers > layers_) layers_ = layers;
        }
        changed_.notify_all();
    }
    void fail() {
        {
            std::lock_guard lock(mutex_);
            failed_ = true;
        }
        changed_.notify_all();
    }
    void finish(bool sound) { sound ? landed(all_) : fail(); }

    // Returns when layers [0, layers) have landed, when the load has failed, or after timeout_ns.
    Landing wait(uint32_t layers, int64_t timeout_ns) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                          [&] { return failed_ || layers_ >= layers; });
        if (failed_) return Landing::failed;
        return layers_ >= layers ? Landing::landed : Landing::timeout;
    }

    // Of all layers, 0 to 1.
    double share() const {
        std::lock_guard lock(mutex_);
        return static_cast<double>(layers_) / all_;
    }
    bool failed() const {
        std::lock_guard lock(mutex_);
        return failed_;
    }

 private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    const uint32_t all_;
    uint32_t layers_ = 0;
    bool failed_ = false;
};

}  // namespace quire
