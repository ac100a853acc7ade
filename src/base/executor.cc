#include "base/executor.h"

#include <pthread.h>

namespace quire {
namespace {
constexpr size_t kThreadNameMax = 15;  // pthread_setname_np's own bound
}

ThreadPool::ThreadPool(std::string name, uint32_t threads, uint32_t queue_max)
    : name_(std::move(name)), queue_max_(queue_max) {
    try {
        for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
    } catch (...) {  // no more threads to be had: without those that there are, and tell
        stop();
        throw;
    }
}

ThreadPool::~ThreadPool() {
    stop();
}

void ThreadPool::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

Status ThreadPool::submit(std::function<void()> task) {
    {
        std::lock_guard lock(mutex_);
        if (queue_.size() >= queue_max_)
            return make_error(Code::busy, "the queue of " + name_ + " is full");
        queue_.push_back(std::move(task));
    }
    work_.notify_one();
    return {};
}

void ThreadPool::drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return queue_.empty() && running_ == 0; });
}

uint32_t ThreadPool::queued() const {
    std::lock_guard lock(mutex_);
    return static_cast<uint32_t>(queue_.size());
}

void ThreadPool::run(uint32_t number) {
    const std::string label = (name_ + "-" + std::to_string(number)).substr(0, kThreadNameMax);
    pthread_setname_np(pthread_self(), label.c_str());
    std::unique_lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        std::function<void()> task = std::move(queue_.front());
        queue_.pop_front();
        ++running_;
        lock.unlock();
        task();
        task = nullptr;
        lock.lock();
        if (--running_ == 0 && queue_.empty()) idle_.notify_all();
    }
}

}  // namespace quire
