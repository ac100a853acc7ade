// Attention of many query tokens a request (a chunk of a prompt, or a group of requests that share
// a prefix) over pages of the hot family, read as codes, and over pages of 16-bit numbers.
//
// Two kernels on the caller's stream: one makes the work list from the lengths, the other attends.
// No scratch grows with keys; a CUDA graph may capture both, and lengths, tables and pages may
// change between its launches. The same input gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attn/decode.h"

namespace quire::kernels::cuda {

// Pointers are to device memory; q and out, and their strides in bytes, are multiples of 16.
// Request r has n_r queries, tokens [first_tokens[r], first_tokens[r + 1]) of q, each times
// tokens_each. Its query i stands at position lengths[r] - n_r + i and sees keys up to its own;
// where not causal, all of them do all keys. REQUIRES: causal: lengths[r] >= n_r, or 0 for a
// request that is left out; first_tokens ascends to n_tokens / tokens_each at most.
struct PrefillParams {
    const void* q = nullptr;     // [n_tokens][n_heads][head_dim], after RoPE
    int64_t q_token_stride = 0;  // in numbers
    int64_t q_head_stride = 0;
    void* out = nullptr;  // the same shape; rows of requests without keys stay as they are
    int64_t out_token_stride = 0;
    int64_t out_head_stride = 0;
    // [n_tokens][n_heads], natural, -inf where a query sees nothing; null: nobody asks.
    float* lse = nullptr;
    Numbers element = Numbers::bf16;  // of q and out
    int32_t n_requests = 0;
    int32_t n_tokens = 0;                   // of q
    const int32_t* first_tokens = nullptr;  // [n_requests + 1]
    int32_t tokens_each = 1;
    bool causal = true;
    int32_t n_heads = 0;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;  // 64, 96, 128 or 256
    int32_t block_tokens = 0;
    int32_t window = 0;                // 0: all keys
    float scale = 0;                   // of the dot product
    float softcap = 0;                 // 0: none
    const int32_t* lengths = nullptr;  // [n_requests] keys
    const int32_t* blocks = nullptr;   // [n_requests][table_stride]
    int64_t table_stride = 0;
    // As in DecodeParams.
    const std::byte* pages = nullptr;
    int64_t block_stride = 0;
    int64_t head_stride = 0;
    PagesHold pages_hold = PagesHold::codes;
    int32_t k_bits = 0;
    int32_t v_bits = 0;
    const float* v_mean = nullptr;
    void* workspace = nullptr;  // prefill_workspace_bytes(), aligned to 128
};

const char* prefill_supports(const PrefillParams& params);

// `blocks`: decode_blocks() of the device that it will run on.
size_t prefill_workspace_bytes(const PrefillParams& params, int32_t blocks);

// REQUIRES: prefill_supports() == nullptr. Returns the CUDA runtime's error code, 0 for none.
int prefill(const PrefillParams& params, int32_t blocks, CUstream_st* stream);

}  // namespace quire::kernels::cuda
