// Whether a preempted request's KV is worth copying to a lower tier. Pure.
#pragma once

#include <cstdint>

#include "policy/plan.h"

namespace quire {

// True when writing `bytes` to G2 and reading them back costs less than computing `tokens` tokens
// again.
inline bool spill_pays(uint32_t tokens, uint64_t bytes, const CostModel& cost) {
    const double n = tokens;
    const double recompute_ns =
        n * cost.prefill_ns_per_token + n * n / 2 * cost.prefill_ns_per_token_per_key;
    const int g2 = static_cast<int>(Tier::g2);
    const double move_ns =
        2 * (cost.load_latency_ns[g2] + static_cast<double>(bytes) * cost.load_ns_per_byte[g2]);
    return move_ns < recompute_ns;
}

}  // namespace quire
