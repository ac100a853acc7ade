#include "engine/step_gate.h"

#include <algorithm>

namespace quire {

bool StepGate::wait_layer(uint32_t layer, size_t sequence) {
    if (leases_[sequence] == 0) return true;
    const int64_t begin_ns = clock_.monotonic_ns();
    const Status landed = cache_.wait_layer(leases_[sequence], layer, left_ns_);
    const int64_t spent_ns = clock_.monotonic_ns() - begin_ns;
    waited_ns_ += spent_ns;
    left_ns_ = std::max<int64_t>(0, left_ns_ - spent_ns);
    late_ |= landed.code() == Code::timeout;
    return landed.ok();
}

}  // namespace quire
