// Carries an engine's events of one HTTP request from the engine's thread to its coroutine.
//
// Bounded by what the request may generate; a slow reader finds the events of several steps at
// once.
// The engine may let go of its sinks, and with them of the queue, after the server and its I/O are
// gone: a closed queue holds nothing of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/api.h"
#include "server/net.h"

namespace quire::server {

struct ChoiceEvent {
    uint32_t choice = 0;
    int64_t arrived_ns = 0;  // on the monotonic clock
    GenerateEvent event;
};

class EventQueue : public std::enable_shared_from_this<EventQueue> {
 public:
    explicit EventQueue(net::any_io_executor io);

    // Any thread, also after the I/O has gone if close() came before; never blocks for long.
    void push(uint32_t choice, GenerateEvent&& event);

    // I/O thread from here on. Nobody waits in next() and what is pushed later is dropped.
    void close();
    // Waits for events, for the client's leaving or for `max_wait_ns`.
    awaitable<std::vector<ChoiceEvent>> next(int64_t max_wait_ns);
    void set_client_gone();
    bool client_gone() const { return client_gone_; }

 private:
    std::vector<ChoiceEvent> take();

    std::mutex mutex_;
    std::vector<ChoiceEvent> events_;  // under mutex_
    bool wake_posted_ = false;         // under mutex_

    net::any_io_executor io_;                // under mutex_; empty once closed
    std::optional<net::steady_timer> wake_;  // empty once closed
    bool client_gone_ = false;
};

}  // namespace quire::server
