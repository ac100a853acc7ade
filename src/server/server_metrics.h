// The metrics that only the server can count: requests by route and status, and latencies as
// clients see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/event_queue.h"

namespace quire::server {

class ServerMetrics {
 public:
    void request_started() {}
    void request_ended(std::string_view, int) {}
    void first_token(double) {}
    void between_tokens(double) {}
    void end_to_end(double) {}
    void connection_refused() {}
    std::string prometheus_text() const { return {}; }
};

// Turns one request's events into latencies.
class RequestLatency {
 public:
    RequestLatency(ServerMetrics& metrics, int64_t received_ns)
        : metrics_(metrics), received_ns_(received_ns) {}
    void event(const ChoiceEvent&) {}
    void finished() {}

 private:
    ServerMetrics& metrics_;
    int64_t received_ns_;
};

}  // namespace quire::server
