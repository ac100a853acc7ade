// An engine over a scratch disk that can be closed and opened again, as a restart would.
#pragma once

#include <memory>
#include <string>

#include "bench/bench.h"
#include "engine/engine.h"

namespace quire::bench {

class TieredEngine {
 public:
    // Nothing is opened yet. Every tier on, the disk tier under `dir`.
    TieredEngine(const BenchOptions& options, const BenchModel& model, const std::string& dir);

    EngineOptions& options() { return options_; }
    Engine& engine() { return *engine_; }

    Status open();
    // Drains and destroys the engine, then opens it on the same directory.
    Status restart();
    void close();
    // Empties the tiers above `tier` once what they hold has reached it.
    Status leave_only(Tier tier);
    // One short request, so that weights and buffers are touched.
    Status warm_up();

 private:
    EngineOptions options_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace quire::bench
