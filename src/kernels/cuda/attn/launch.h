// What the units of a decode share: how work is cut, and who launches what.
#pragma once

#include "kernels/cuda/attn/decode.h"
#include "kernels/cuda/sched/work_list.h"

namespace quire::kernels::cuda {

inline constexpr int kChunkTokens = 32;  // of a warp
inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeThreads = 32 * kDecodeWarps;
inline constexpr int kTileTokens = kDecodeWarps * kChunkTokens;

QUIRE_HOST_DEVICE inline KeySpan keys_of(const DecodeParams& p, int32_t request) {
    return span_of(p.lengths[request], p.n_queries, p.window);
}

// Queues the kernel that makes the work list.
void launch_prepare(const DecodeParams& params, CUstream_st* stream);

// Both kernels, for one head_dim; a file each.
template <int kHeadDim>
int launch_decode(const DecodeParams& params, int32_t workers, CUstream_st* stream);

// Blocks of one multiprocessor, with the largest tables; below 0: an error.
template <int kHeadDim>
int32_t decode_blocks_each();

}  // namespace quire::kernels::cuda
