// Attention of multi-head latent attention (MLA, DeepSeek's) over paged rows, on a GPU: a token has
// one row, which is the key of all query heads, and of which the first numbers are the value.
//
// Two kernels on the caller's stream: one makes the work list from the lengths (sched/work_list.h),
// the other attends. No scratch grows with keys; a CUDA graph may capture both, and lengths,
// tables, lists and rows may change between its launches. The same input gives the same bits.
// Products are bf16 with float32 sums; weights of scores are rounded to bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

// How a token is cached. Those of 8 bits are laid out by src/codec/mla/README.md; their numbers
// become bf16, rounded where a scale is no power of two. A code that is NaN reads as 480.
enum class MlaRows : uint8_t {
    bf16,  // 512 latent and 64 rotary numbers, 1152 bytes
    v32,   // DeepSeek V3.2: the same numbers, the latent ones E4M3 with float32 scales, 656 bytes
    v4,  // DeepSeek V4: 448 latent numbers, E4M3 with scales of powers of two, and 64 rotary ones,
         // 584 bytes; all 512 are the value
};

inline constexpr int32_t kMlaValues = 512;  // numbers of a result
// Numbers of a key and of a query.
constexpr int32_t mla_numbers(MlaRows rows) {
    return rows == MlaRows::v4 ? 512 : 576;
}

// Pointers are to device memory. Query i of request r stands at position lengths[r] - n_queries + i
// and sees keys up to its own. REQUIRES: lengths[r] >= n_queries, or 0 for a request that is left
// out.
struct MlaParams {
    const void* q = nullptr;     // [n_requests][n_queries][n_heads][numbers] bf16
    int64_t q_token_stride = 0;  // in numbers, between queries
    int64_t q_head_stride = 0;
    void* out = nullptr;  // [n_requests][n_queries][n_heads][512]
    int64_t out_token_stride = 0;
    int64_t out_head_stride = 0;
    Numbers out_element = Numbers::bf16;  // or f32
    float* lse = nullptr;  // [n_requests][n_queries][n_heads], natural; null: nobody asks
    int32_t n_requests = 0;
    int32_t n_queries = 1;
    int32_t n_heads = 0;
    int32_t block_tokens = 0;
    float scale = 0;                   // of the dot product
    const int32_t* lengths = nullptr;  // [n_requests] keys
    const int32_t* blocks = nullptr;   // [n_requests][table_stride]; not read where lists are given
    int64_t table_stride = 0;
    // Lists of tokens, [n_requests][list_stride] of block * block_tokens + token in the block: the
    // request's keys are the first lengths[r] of them, negative ones left out. Null: all tokens.
    const int64_t* lists = nullptr;
    int64_t list_stride = 0;
    MlaRows rows = MlaRows::bf16;
    const std::byte* pages = nullptr;  // block b at pages + b * block_stride
    int64_t n_blocks = 0;              // a number in `blocks` that is none of them reads as zeros
    int64_t block_stride = 0;          // in bytes
    void* workspace = nullptr;         // mla_workspace_bytes(), aligned to 128
};

// nullptr: mla_decode() takes it. Otherwise a static sentence that says why not.
const char* mla_supports(const MlaParams& params);

// `workers`: mla_workers() of the device that it will run on.
size_t mla_workspace_bytes(const MlaParams& params, int32_t workers);

// Blocks that the current device runs at once; or less than 0: the CUDA runtime's error.
int32_t mla_workers();

// REQUIRES: mla_supports() == nullptr. Returns the CUDA runtime's error code, 0 for none.
int mla_decode(const MlaParams& params, int32_t workers, CUstream_st* stream);

}  // namespace quire::kernels::cuda
