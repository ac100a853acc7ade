#include "server/server_metrics.h"

#include <utility>

#include "server/timing_json.h"

namespace quire::server {
namespace {

constexpr int kClientLeft = 499;

double seconds(int64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

}  // namespace

void ServerMetrics::response(std::string_view route, int status) {
    registry_
        .counter(Metric::http_responses_total, label::http_route(route),
                 label::http_code(status == 0 ? kClientLeft : status))
        .add();
}

void ServerMetrics::connections(size_t open) {
    registry_.gauge(Metric::connections).set(static_cast<int64_t>(open));
}

void ServerMetrics::connection_refused() {
    registry_.counter(Metric::connections_refused_total).add();
}

void ServerMetrics::outcome(label::Outcome outcome) {
    registry_.counter(Metric::requests_total, outcome).add();
}

void ServerMetrics::choice_finished(std::string_view tenant, const RequestTiming& timing) {
    registry_.histogram(Metric::request_queue_seconds).observe(seconds(timing.queue_ns));
    registry_.histogram(Metric::request_prefill_seconds).observe(seconds(timing.prefill_ns));
    registry_.histogram(Metric::request_decode_seconds).observe(seconds(timing.decode_ns));
    const size_t index = registry_.tenant(tenant.empty() ? "default" : tenant);
    registry_.counter(Metric::tenant_requests_total, index).add();
    registry_.counter(Metric::tenant_prompt_tokens_total, index).add(timing.prompt_tokens);
    registry_.counter(Metric::tenant_hit_tokens_total, index).add(cached_tokens(timing));
}

label::Outcome outcome_of_error(int status) {
    if (status == 429 || status == 503) return label::Outcome::rejected;
    if (status == 504) return label::Outcome::timeout;
    return status < 500 ? label::Outcome::invalid : label::Outcome::error;
}

RequestLatency::RequestLatency(ServerMetrics& metrics, std::string tenant, int64_t received_ns,
                               size_t choices)
    : metrics_(metrics),
      tenant_(std::move(tenant)),
      received_ns_(received_ns),
      last_token_ns_(choices, 0) {}

void RequestLatency::event(const ChoiceEvent& event) {
    Metrics& registry = metrics_.registry();
    int64_t& last_ns = last_token_ns_[event.choice];
    if (!event.event.tokens.empty()) {
        const int64_t since_ns = event.arrived_ns - (last_ns == 0 ? received_ns_ : last_ns);
        registry
            .histogram(last_ns == 0 ? Metric::time_to_first_token_seconds
                                    : Metric::inter_token_latency_seconds)
            .observe(seconds(since_ns));
        last_ns = event.arrived_ns;
    }
    const Finish finish = event.event.finish;
    if (finish != Finish::stop && finish != Finish::length) return;
    registry.histogram(Metric::e2e_request_latency_seconds)
        .observe(seconds(event.arrived_ns - received_ns_));
    metrics_.choice_finished(tenant_, event.event.timing);
}

}  // namespace quire::server
