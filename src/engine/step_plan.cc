#include "engine/step_plan.h"

#include <algorithm>

namespace quire {

std::vector<uint32_t> plan_step(std::span<const StepCandidate> candidates,
                                const StepBounds& bounds) {
    std::vector<uint32_t> take(candidates.size(), 0);
    uint32_t tokens = bounds.tokens;
    uint32_t sequences = bounds.sequences;
    uint32_t rows = bounds.logit_rows;
    for (const bool decoding : {true, false}) {
        for (size_t i = 0; i < candidates.size(); ++i) {
            const StepCandidate& candidate = candidates[i];
            if (candidate.decoding != decoding) continue;
            if (tokens == 0 || sequences == 0 || rows == 0) return take;
            uint32_t n = std::min(candidate.pending_tokens, tokens);
            if (candidate.all_logits) n = std::min(n, rows);
            take[i] = n;
            tokens -= n;
            --sequences;
            rows -= candidate.all_logits ? n : 1;
        }
    }
    return take;
}

}  // namespace quire
