#include "kernels/cuda/attn/cascade_plan.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {

const char* cascade_supports(const CascadeParams& c) {
    if (c.n_groups < 0) return "n_groups must not be negative";
    if (c.own.window != 0) return "requests with a window share no prefix";
    if (c.own.n_requests > 0 && (c.workspace == nullptr || !is_aligned(c.workspace, 128)))
        return "the workspace must be given, and be aligned to 128 bytes";
    const CascadePlan plan = plan_cascade(c, 1);
    if (const char* why = prefill_supports(plan.prefix)) return why;
    if (const char* why = decode_supports(plan.own)) return why;
    return merge_states_supports(plan.merge);
}

size_t cascade_workspace_bytes(const CascadeParams& c, int32_t blocks) {
    return plan_cascade(c, blocks).bytes;
}

}  // namespace quire::kernels::cuda
