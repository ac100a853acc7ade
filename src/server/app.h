// What every handler needs: the engine behind the server and the server's own parts.
//
// Owned by Server; outlives every connection.
#pragma once

#include <atomic>
#include <memory>

#include "engine/api.h"
#include "server/http_message.h"
#include "server/key_ring.h"
#include "server/request_stop.h"
#include "server/server_metrics.h"
#include "server/server_options.h"
#include "server/workers.h"

namespace quire::server {

struct App {
    EngineApi& engine;
    const ServerOptions options;
    const KeyRing keys;
    ServerMetrics metrics;
    // What grows with a body: parsing, templates, tokenizing.
    Workers workers;
    // What is always short: metrics, the state of the cache, handing requests over.
    Workers reports{"reports", 1};
    // Flushes, which wait for the tiers.
    Workers maintenance{"flushes", 1};
    std::atomic<bool> draining{false};

    // For work on a request; told when the client leaves by whoever watches the exchange.
    std::shared_ptr<RequestStop> stop_for(const HttpRequest& request) const {
        return std::make_shared<RequestStop>(draining,
                                             request.received_ns + options.request_timeout_ns);
    }

    App(EngineApi& engine_in, Metrics& registry, ServerOptions options_in)
        : engine(engine_in),
          options(std::move(options_in)),
          keys(options.keys),
          metrics(registry),
          workers("tokenizers", options.worker_threads) {}
};

}  // namespace quire::server
