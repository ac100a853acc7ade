// ThreadPool: a fixed number of named threads over one bounded queue.
//
// submit() never blocks: a full queue is Code::busy and the caller decides. Tasks must not throw.
// Destruction finishes what was accepted. Any thread may submit, tasks included.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace quire {

class ThreadPool {
 public:
    // Throws std::system_error when the machine gives no more threads.
    ThreadPool(std::string name, uint32_t threads, uint32_t queue_max);
    ~ThreadPool();

    Status submit(std::function<void()> task);
    // Waits until nothing is queued or running.
    void drain();
    uint32_t queued() const;

 private:
    void stop();
    void run(uint32_t number);

    std::string name_;
    uint32_t queue_max_;
    mutable std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable idle_;
    std::deque<std::function<void()>> queue_;
    uint32_t running_ = 0;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace quire
