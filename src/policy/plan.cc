#include "policy/plan.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

// Computing tokens [from, to) of a prompt: token t attends to the t keys before it.
double compute_ns(double from, double to, const CostModel& cost) {
    const double keys = (to * (to - 1) - from * (from - 1)) / 2;
    return cost.prefill_ns_per_token * (to - from) + cost.prefill_ns_per_token_per_key * keys;
}

// What loading a growing prefix costs: latency per batch of parallel loads and tier, plus bytes.
class LoadCost {
 public:
    explicit LoadCost(const CostModel& cost) : cost_(cost) {}

    void add(const PrefixBlock& block) {
        const uint64_t parallel = static_cast<uint64_t>(std::max(cost_.parallel_loads, 1));
        for (int t = 1; t < kTierCount; ++t) {  // what is in G1 already is not loaded
            if (block.bytes[t] == 0) continue;
            if (blocks_[t]++ % parallel == 0) ns_ += cost_.load_latency_ns[t];
            ns_ += static_cast<double>(block.bytes[t]) * cost_.load_ns_per_byte[t];
        }
    }
    double ns() const { return ns_; }

 private:
    const CostModel& cost_;
    uint64_t blocks_[kTierCount] = {};
    double ns_ = 0;
};

}  // namespace

PrefixPlan plan_prefix(std::span<const PrefixBlock> blocks, uint32_t block_tokens,
                       uint32_t prompt_tokens, const CostModel& cost) {
    QUIRE_CHECK(block_tokens > 0, "blocks of no tokens");
    PrefixPlan plan;
    double best = compute_ns(0, prompt_tokens, cost);
    uint32_t usable = 0;
    LoadCost load(cost);
    for (uint32_t i = 0; i < blocks.size() && blocks[i].loadable; ++i) {
        const uint64_t cut = uint64_t{i + 1} * block_tokens;
        if (cut >= prompt_tokens) break;  // the last token's logits must be computed
        load.add(blocks[i]);
        if (!blocks[i].can_end) continue;
        usable = i + 1;
        const double from = static_cast<double>(cut);
        const double total = load.ns() + compute_ns(from, prompt_tokens, cost);
        if (total > best) continue;
        best = total;
        plan.use_blocks = usable;
        plan.load_ns = load.ns();
        plan.saved_ns = compute_ns(0, from, cost);
    }
    plan.cheaper_blocks = usable - plan.use_blocks;
    return plan;
}

}  // namespace quire
