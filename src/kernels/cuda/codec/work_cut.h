// How the host cuts the work of encoding. Host code.
#pragma once

#include <cstdint>

namespace quire::kernels::cuda {

// A pair of warps takes the runs of 16 tokens at most that begin in a window of the new tokens, and
// a share of the KV heads. Pairs are numbered through shares, then through windows.
struct WorkCut {
    int32_t window_tokens;  // at most 16
    int32_t windows;
    int32_t share_heads;
    int32_t shares;      // times share_heads is at least kv_heads
    int32_t log_groups;  // 2^log_groups groups of 16 tokens are a page
};

// REQUIRES: n_tokens > 0.
inline WorkCut cut_work(int32_t n_tokens, int32_t kv_heads, int32_t block_tokens) {
    WorkCut cut{};
    // Few tokens, as in a step of decoding, are often of as many groups.
    cut.window_tokens = n_tokens <= 512 ? 1 : 16;
    cut.windows = (n_tokens - 1) / cut.window_tokens + 1;
    // Enough pairs for every multiprocessor of the largest GPUs, a few times.
    cut.share_heads = 1;
    while (cut.share_heads < kv_heads &&
           int64_t{cut.windows} * kv_heads / (2 * cut.share_heads) >= 12288)
        cut.share_heads *= 2;
    cut.shares = (kv_heads - 1) / cut.share_heads + 1;
    while (16 << cut.log_groups < block_tokens) ++cut.log_groups;
    return cut;
}

}  // namespace quire::kernels::cuda
