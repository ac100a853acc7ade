// Copies the engine's counters into the metric registry whenever metrics are asked for.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "engine/engine.h"

namespace quire {

// Both outlive the returned token; copying ends with it.
std::shared_ptr<void> publish_engine_metrics(Metrics& metrics, Engine& engine);

}  // namespace quire
