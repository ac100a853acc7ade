#include "kernels/cuda/attn/cascade_plan.h"

namespace quire::kernels::cuda {
int cascade(const CascadeParams& c, int32_t blocks, CUstream_st* stream) {
    if (c.own.n_requests == 0) return 0;
    CascadePlan plan = plan_cascade(c, blocks);
    if (c.n_groups == 0) {
        plan.own.lse = c.own.lse;
        return decode(plan.own, blocks, stream);
    }
    int error = prefill(plan.prefix, blocks, stream);
    if (error == 0) error = decode(plan.own, blocks, stream);
    return error != 0 ? error : merge_states(plan.merge, stream);
}

}  // namespace quire::kernels::cuda
