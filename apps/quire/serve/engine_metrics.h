// Copies the engine's counters into the metric registry whenever metrics are asked for.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "engine/engine.h"

namespace quire {

// Both outlive the returned token; copying ends with it. `several_tenants`: see copy_misses.
std::shared_ptr<void> publish_engine_metrics(Metrics& metrics, Engine& engine,
                                             bool several_tenants);

// Misses by reason. With several tenants, who shall not learn of each other's prompts from metrics
// that all may read, "another tenant has it" counts as never seen.
void copy_misses(Metrics& metrics, const CacheStats& cache, bool several_tenants);

}  // namespace quire
