// New rows of K and V into pages of the hot family, on a GPU: what engines call reshape and cache.
//
// The bytes are those that the CPU's codec writes. Nothing is allocated and nothing waited for:
// everything is queued on the caller's stream, and a CUDA graph may capture it. Widths are run-time
// values, so that a schedule over layers needs no kernel of its own.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace quire::kernels::cuda {

enum class Numbers : uint8_t { f32, f16, bf16 };

// K or V of new tokens. Pointers are to device memory.
struct EncodeRows {
    const void* rows = nullptr;   // [n_tokens][kv_heads][head_dim]; null: this side stays as it is
    int64_t token_stride = 0;     // in numbers
    int64_t head_stride = 0;      // in numbers
    const float* mean = nullptr;  // [kv_heads][head_dim], taken off first; null: nothing is
    int32_t bits = 0;             // 2 to 8
};

// Pages of one layer: that of block b and KV head h is at pages + b * block_stride + h *
// head_stride, and is laid out by codec/hot/layout.h.
struct EncodeParams {
    EncodeRows k, v;
    Numbers element = Numbers::bf16;
    int32_t n_tokens = 0;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;
    int32_t block_tokens = 0;
    // [n_tokens] block * block_tokens + token in the block; negative: not written. No two alike.
    // Tokens of a group of 16 are fastest where they follow each other.
    const int64_t* slots = nullptr;
    std::byte* pages = nullptr;
    int64_t n_blocks = 0;
    int64_t block_stride = 0;  // in bytes
    int64_t head_stride = 0;   // in bytes
    // Counts rows that held a NaN or an infinity, which are coded as zeros; null: nobody asks.
    uint32_t* not_finite = nullptr;
};

// nullptr: encode() takes it. Otherwise a static sentence that says why not.
const char* encode_supports(const EncodeParams& params);

// REQUIRES: encode_supports() == nullptr, slots below n_blocks * block_tokens. Returns the CUDA
// runtime's error code, 0 for none.
int encode(const EncodeParams& params, CUstream_st* stream);

}  // namespace quire::kernels::cuda
