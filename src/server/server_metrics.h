// The metrics that only the server can count: responses, outcomes, latencies as clients see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "engine/api.h"
#include "server/event_queue.h"

namespace quire::server {

// Any thread. Refers to the registry, which outlives it.
class ServerMetrics {
 public:
    explicit ServerMetrics(Metrics& registry) : registry_(registry) {}

    // `status` 0: the client left before there was one; counted as 499. `route`: its path in the
    // table of routes; anything else counts as "other".
    void response(std::string_view route, int status);
    void connections(size_t open);
    void connection_refused();
    void outcome(label::Outcome outcome);
    // A choice that ran to its end.
    void choice_finished(std::string_view tenant, const RequestTiming& timing);

    Metrics& registry() { return registry_; }

 private:
    Metrics& registry_;
};

// How a request ended that was answered with this error.
label::Outcome outcome_of_error(int status);

// Turns one request's events into latencies. One coroutine owns it.
class RequestLatency {
 public:
    RequestLatency(ServerMetrics& metrics, std::string tenant, int64_t received_ns, size_t choices);

    void event(const ChoiceEvent& event);

 private:
    ServerMetrics& metrics_;
    std::string tenant_;
    int64_t received_ns_;
    std::vector<int64_t> last_token_ns_;  // by choice; 0: none yet
};

}  // namespace quire::server
