// What every handler needs: the engine behind the server and the server's own parts.
//
// Owned by Server; outlives every connection.
#pragma once

#include <atomic>

#include "engine/api.h"
#include "server/key_ring.h"
#include "server/server_metrics.h"
#include "server/server_options.h"
#include "server/workers.h"

namespace quire::server {

struct App {
    EngineApi& engine;
    const ServerOptions options;
    const KeyRing keys;
    ServerMetrics metrics;
    Workers workers;
    std::atomic<bool> draining{false};

    App(EngineApi& engine_in, Metrics& registry, ServerOptions options_in)
        : engine(engine_in),
          options(std::move(options_in)),
          keys(options.keys),
          metrics(registry),
          workers(options.worker_threads) {}
};

}  // namespace quire::server
