// StepGate: holds a step's layers until the cached pages that its sequences attend to have landed.
//
// One per step. All sequences share one budget of waiting, so that the step stays bounded however
// many loads are late. The engine's thread alone uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cache/cache.h"
#include "engine/model/forward.h"

namespace quire {

class StepGate final : public LayerGate {
 public:
    // `leases`: one per sequence of the step; 0: it has nothing to wait for.
    StepGate(Cache& cache, const Clock& clock, std::vector<LeaseId> leases, int64_t wait_max_ns)
        : cache_(cache), clock_(clock), leases_(std::move(leases)), left_ns_(wait_max_ns) {}

    bool wait_layer(uint32_t layer, size_t sequence) override;

    int64_t waited_ns() const { return waited_ns_; }
    // Whether a sequence was dropped because its load was late, not because it failed.
    bool late() const { return late_; }

 private:
    Cache& cache_;
    const Clock& clock_;
    std::vector<LeaseId> leases_;
    int64_t left_ns_;
    int64_t waited_ns_ = 0;
    bool late_ = false;
};

}  // namespace quire
