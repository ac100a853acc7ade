#include "server/event_queue.h"

#include <chrono>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/clock.h"

namespace quire::server {

EventQueue::EventQueue(net::any_io_executor io) : io_(io), wake_(io) {}

void EventQueue::push(uint32_t choice, GenerateEvent&& event) {
    const int64_t now_ns = system_clock().monotonic_ns();
    const std::lock_guard lock(mutex_);
    if (!io_) return;
    events_.push_back({choice, now_ns, std::move(event)});
    if (wake_posted_) return;
    wake_posted_ = true;
    net::post(io_, [self = shared_from_this()] {
        {
            const std::lock_guard inner(self->mutex_);
            self->wake_posted_ = false;
        }
        if (self->wake_) self->wake_->cancel();
    });
}

void EventQueue::close() {
    wake_.reset();
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
    events_.clear();
}

std::vector<ChoiceEvent> EventQueue::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
}

awaitable<std::vector<ChoiceEvent>> EventQueue::next(int64_t max_wait_ns) {
    wake_->expires_after(std::chrono::nanoseconds(max_wait_ns));
    for (;;) {
        // A wake-up between take() and the wait is impossible: both happen on this thread. One that
        // is late for an earlier wait finds nothing and waits on.
        auto events = take();
        if (!events.empty() || client_gone_) co_return events;
        auto [error] = co_await wake_->async_wait(kAwait);
        if (!error) co_return take();
    }
}

void EventQueue::set_client_gone() {
    client_gone_ = true;
    if (wake_) wake_->cancel();
}

}  // namespace quire::server
