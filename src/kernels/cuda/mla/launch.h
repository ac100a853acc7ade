// What an MLA decode's files share: how work is cut, how the workspace is divided. Host and device.
#pragma once

#include "kernels/cuda/mla/mla.h"
#include "kernels/cuda/sched/work_list.h"

namespace quire::kernels::cuda {

inline constexpr int32_t kMlaTileKeys = 64;
inline constexpr int32_t kMlaTileRows = 64;  // query rows of a block: heads of one token or of more

// Rows of a request in order of token, head; a block takes a tile of them.
QUIRE_HOST_DEVICE constexpr int32_t mla_row_tiles(const MlaParams& p) {
    return (p.n_queries * p.n_heads + kMlaTileRows - 1) / kMlaTileRows;
}
// Row tiles of a request that neighbouring blocks work on at the same time, over the same keys, so
// that the second-level cache gives these to all but one of them.
QUIRE_HOST_DEVICE constexpr int32_t mla_team(const MlaParams& p) {
    const int32_t tiles = mla_row_tiles(p);
    if (tiles <= 4) return tiles;
    return tiles % 4 == 0 ? 4 : tiles % 3 == 0 ? 3 : tiles % 2 == 0 ? 2 : 1;
}

// Blocks that share what each of them decodes: half of a tile's codes each, for both. Rows of bf16
// are not shared so: copies to two blocks came no sooner than copies by each.
QUIRE_HOST_DEVICE constexpr int32_t mla_cluster(const MlaParams& p) {
    return p.rows != MlaRows::bf16 && mla_team(p) % 2 == 0 ? 2 : 1;
}
// Tokens of a tensor copy.
QUIRE_HOST_DEVICE constexpr int32_t mla_box_tokens(int32_t block_tokens) {
    return block_tokens < kMlaTileKeys ? block_tokens : kMlaTileKeys;
}

// A partial result: sums in the order of the threads' registers, [64] largest scores, [64] sums of
// weights, and a counter of parts that have come, for the first of a group.
inline constexpr int64_t kMlaTopsAt = int64_t{kMlaTileRows} * kMlaValues;
inline constexpr int64_t kMlaArrivedAt = kMlaTopsAt + 2 * kMlaTileRows;
inline constexpr int64_t kMlaPartialFloats = kMlaArrivedAt + 32;
inline constexpr int32_t kMlaGroupParts = 8;

struct MlaWorkspace {
    int32_t* first_tiles;  // [n_requests + 1]
    int32_t* arrived;      // [n_requests][row tiles]
    float* partials;       // [2 * workers][kMlaPartialFloats]
};

QUIRE_HOST_DEVICE constexpr int64_t mla_counters(const MlaParams& p) {
    const int64_t n = int64_t{p.n_requests} + 1 + int64_t{p.n_requests} * mla_row_tiles(p);
    return (n + 31) / 32 * 32;
}

QUIRE_HOST_DEVICE inline MlaWorkspace divide_workspace(const MlaParams& p) {
    auto* counters = static_cast<int32_t*>(p.workspace);
    return {counters, counters + p.n_requests + 1,
            reinterpret_cast<float*>(counters + mla_counters(p))};
}

QUIRE_HOST_DEVICE inline KeySpan keys_of(const MlaParams& p, int32_t request) {
    return {0, p.lengths[request]};
}

}  // namespace quire::kernels::cuda
