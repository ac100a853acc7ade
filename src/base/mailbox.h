// Mailbox<T>: messages from any thread to the one thread that owns some state.
//
// Bounded by its senders (each message answers a request that was itself bounded), so post() never
// blocks and never fails. The owner drains everything at once; wait() sleeps until a message, a
// notify() or the deadline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace quire {

template <typename T>
class Mailbox {
 public:
    // Any thread.
    void post(T message) {
        {
            std::lock_guard lock(mutex_);
            messages_.push_back(std::move(message));
        }
        ready_.notify_one();
    }

    // Wakes the owner without a message. Any thread.
    void notify() {
        {
            std::lock_guard lock(mutex_);
            notified_ = true;
        }
        ready_.notify_one();
    }

    // Everything posted so far, oldest first. Owner only.
    std::vector<T> drain() {
        std::vector<T> taken;
        std::lock_guard lock(mutex_);
        taken.swap(messages_);
        notified_ = false;
        return taken;
    }

    // Returns true if there is something to drain (or a notify came) before `timeout_ns` passed.
    bool wait(int64_t timeout_ns) {
        std::unique_lock lock(mutex_);
        return ready_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                               [this] { return notified_ || !messages_.empty(); });
    }

 private:
    std::mutex mutex_;
    std::condition_variable ready_;
    std::vector<T> messages_;
    bool notified_ = false;
};

}  // namespace quire
