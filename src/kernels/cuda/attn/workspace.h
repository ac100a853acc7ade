// How a decode's workspace is divided. The same for host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/attn/launch.h"

namespace quire::kernels::cuda {

// A partial result: [rows][head_dim] sums, [rows] largest scores, [rows] sums of weights.
QUIRE_HOST_DEVICE constexpr int64_t partial_floats(int32_t rows, int32_t head_dim) {
    return int64_t{rows} * (head_dim + 2);
}

// What the kernel that makes the work list leaves for the one that attends.
struct DecodeHead {
    WorkList list;
    int32_t block_workers;  // warps of a block that are workers
};

struct DecodeWorkspace {
    DecodeHead* head;
    uint32_t* queries;  // [n_requests][heads and passes][QueryOperands of attn/prepare.cuh]
    // [workers] Blocks that have left a result of the head that begins with this worker and goes on
    // in another block.
    int32_t* arrived;
    int32_t* first_tiles;  // [n_requests + 1]
    float* partials;       // [2 * workers][partial_floats]: work_list.h's slots
};

QUIRE_HOST_DEVICE constexpr int64_t decode_counters(const DecodeParams& p, int32_t workers) {
    return (int64_t{p.n_requests} + 1 + workers + 31) / 32 * 32;
}
// All rows of a pass, also those that there are not.
QUIRE_HOST_DEVICE constexpr int64_t decode_query_words(const DecodeParams& p, int32_t passes) {
    return int64_t{p.n_requests} * p.kv_heads * passes * rows_at_once(p) * p.head_dim / 2;
}
inline constexpr int64_t kDecodeHeadBytes = 128;
static_assert(sizeof(DecodeHead) <= kDecodeHeadBytes);

QUIRE_HOST_DEVICE inline DecodeWorkspace divide_workspace(const DecodePlan& plan) {
    auto* memory = static_cast<std::byte*>(plan.p.workspace);
    auto* queries = reinterpret_cast<uint32_t*>(memory + kDecodeHeadBytes);
    auto* counters = reinterpret_cast<int32_t*>(queries + decode_query_words(plan.p, plan.passes));
    return {reinterpret_cast<DecodeHead*>(memory), queries, counters, counters + plan.workers_max,
            reinterpret_cast<float*>(counters + decode_counters(plan.p, plan.workers_max))};
}

}  // namespace quire::kernels::cuda
