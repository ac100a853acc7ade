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
    int32_t* arrived;      // [n_requests][kv_heads * passes], zero between launches of the kernel
    float* partials;       // [2 * workers][partial_floats]
};

QUIRE_HOST_DEVICE constexpr int64_t decode_counters(const DecodeParams& p, int32_t passes) {
    const int64_t n = int64_t{p.n_requests} + 1 + int64_t{p.n_requests} * p.kv_heads * passes;
    return (n + 31) / 32 * 32;
}

QUIRE_HOST_DEVICE inline DecodeWorkspace divide_workspace(const DecodeParams& p, int32_t passes) {
    auto* counters = static_cast<int32_t*>(p.workspace);
    return {counters, counters + p.n_requests + 1,
            reinterpret_cast<float*>(counters + decode_counters(p, passes))};
}

}  // namespace quire::kernels::cuda
