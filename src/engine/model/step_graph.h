// The ggml graph of a step with given numbers of rows: matrix products by ggml, the rest by
// step_ops.
//
// Tensors point into StepState's buffers, so graphs are cheap to keep: one is built per pair of row
// counts and used again.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/model/step_state.h"

struct ggml_threadpool;

namespace quire {

class StepGraph {
 public:
    // rows and logit_rows include padding. logit_rows == 0: stops once the last layer's K and V are
    // stored. `state` must outlive it.
    static std::unique_ptr<StepGraph> build(StepState* state, int32_t rows, int32_t logit_rows,
                                            ggml_threadpool* pool);
    virtual ~StepGraph() = default;

    virtual size_t work_bytes() const = 0;
    // Runs on the pool's threads and the calling one. REQUIRES: work has work_bytes().
    virtual void compute(std::byte* work) = 0;
};

}  // namespace quire
