// How a decode's workspace is divided. The same for host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/attn/decode.h"

namespace quire::kernels::cuda {

// A partial result: [rows][head_dim] sums, [rows] largest scores, [rows] sums of weights.
QUIRE_HOST_DEVICE constexpr int64_t partial_floats(int32_t rows, int32_t head_dim) {
    return int64_t{rows} * (head_dim + 2);
}

struct DecodeWorkspace {
    int32_t* first_tiles;  // [n_requests + 1]
    // [workers] Blocks that have left a result of the head that begins with this worker and goes on
    // in another block.
    int32_t* arrived;
    float* partials;  // [2 * workers][partial_floats]: work_list.h's slots
};

QUIRE_HOST_DEVICE constexpr int64_t decode_counters(const DecodeParams& p, int32_t workers) {
    return (int64_t{p.n_requests} + 1 + workers + 31) / 32 * 32;
}

QUIRE_HOST_DEVICE inline DecodeWorkspace divide_workspace(const DecodeParams& p, int32_t workers) {
    auto* counters = static_cast<int32_t*>(p.workspace);
    return {counters, counters + p.n_requests + 1,
            reinterpret_cast<float*>(counters + decode_counters(p, workers))};
}

}  // namespace quire::kernels::cuda
