// Attention of a few new tokens a request over pages of the hot family, on a GPU, read as codes,
// and over pages of 8-bit and 16-bit floats.
//
// Two kernels on the caller's stream: one makes the work list from the lengths (sched/work_list.h),
// the other attends. No scratch grows with keys; a CUDA graph may capture both, and lengths, tables
// and pages may change between its launches. The same input gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/fp8/fp8.h"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

// What pages hold: codes of the hot family, codec raw16's numbers, or codec fp8's.
enum class PagesHold : uint8_t { codes, f16, bf16, fp8_e4m3, fp8_e5m2 };

constexpr bool is_fp8(PagesHold hold) {
    return hold == PagesHold::fp8_e4m3 || hold == PagesHold::fp8_e5m2;
}

inline constexpr int32_t kDecodeRowsMax = 512;  // query rows of a request and KV head

// Pointers are to device memory; q and out, and their strides in bytes, are multiples of 16. Query
// i of request r stands at position lengths[r] - n_queries + i and sees keys up to its own.
// REQUIRES: lengths[r] >= n_queries but with all_keys, or 0 for a request that is left out: its lse
// is -inf, its out stays.
// A NaN or an infinity among values may reach other queries of the call, of the same request, which
// do not see it.
struct DecodeParams {
    const void* q = nullptr;     // [n_requests][n_queries][n_heads][head_dim], after RoPE
    int64_t q_token_stride = 0;  // in numbers, between queries
    int64_t q_head_stride = 0;
    void* out = nullptr;  // the same shape
    int64_t out_token_stride = 0;
    int64_t out_head_stride = 0;
    // [n_requests][n_queries][n_heads], natural, -inf of a request that is left out; null: nobody
    // asks.
    float* lse = nullptr;
    Numbers element = Numbers::bf16;  // of q and out
    int32_t n_requests = 0;
    int32_t n_queries = 1;
    int32_t n_heads = 0;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;
    int32_t block_tokens = 0;
    int32_t window = 0;  // 0: all keys
    // Every query sees every key, of which there may be fewer than queries: those of a part of the
    // context before all of them, to be merged with other parts (attn/merge_states.h). No window.
    bool all_keys = false;
    float scale = 0;                   // of the dot product
    float softcap = 0;                 // 0: none
    const int32_t* lengths = nullptr;  // [n_requests] keys
    const int32_t* blocks = nullptr;   // [n_requests][table_stride]
    int64_t table_stride = 0;
    // As in EncodeParams. No mean of K: it moves all scores of a query alike.
    const std::byte* pages = nullptr;
    int64_t n_blocks = 0;  // checked builds look that `blocks` are below it; 0: not known
    int64_t block_stride = 0;
    int64_t head_stride = 0;
    PagesHold pages_hold = PagesHold::codes;
    int32_t k_bits = 0;  // of codes, as v_bits
    int32_t v_bits = 0;
    codec::fp8::Scaling scaling = codec::fp8::Scaling::one;  // of fp8
    const float* k_scales = nullptr;  // [kv_heads], with Scaling::head only; v_scales likewise
    const float* v_scales = nullptr;
    const float* v_mean = nullptr;  // [kv_heads][head_dim]; null: none
    void* workspace = nullptr;      // decode_workspace_bytes(), aligned to 128
};

const char* decode_supports(const DecodeParams& params);

// `blocks`: decode_blocks() of the device that it will run on.
size_t decode_workspace_bytes(const DecodeParams& params, int32_t blocks);

// Multiprocessors of the current device, or less than 0: the CUDA runtime's error.
int32_t decode_blocks();

// REQUIRES: decode_supports() == nullptr. Returns the CUDA runtime's error code, 0 for none.
int decode(const DecodeParams& params, int32_t blocks, CUstream_st* stream);

}  // namespace quire::kernels::cuda
