// New rows of K and V into pages of 8-bit or 16-bit floats, on a GPU: those of the codecs fp8 and
// raw16.
//
// The bytes are those that the CPU's codecs write. Nothing is allocated and nothing waited for:
// everything is queued on the caller's stream, and a CUDA graph may capture it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/fp8/fp8.h"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

// What pages hold.
enum class PageFloats : uint8_t { e4m3, e5m2, f16, bf16 };

// K or V of new tokens. Pointers are to device memory.
struct FloatRows {
    const void* rows = nullptr;     // [n_tokens][kv_heads][head_dim]; null: this side stays
    int64_t token_stride = 0;       // in numbers
    int64_t head_stride = 0;        // in numbers
    const float* scales = nullptr;  // [kv_heads], positive and finite; with Scaling::head only
};

// Pages of one layer: that of block b and KV head h is at pages + b * block_stride + h *
// head_stride, and is laid out by codec/fp8/fp8.h or codec/raw16/raw16.h.
struct EncodeFloatsParams {
    FloatRows k, v;
    Numbers element = Numbers::bf16;
    PageFloats pages_hold = PageFloats::e4m3;
    codec::fp8::Scaling scaling = codec::fp8::Scaling::one;  // of the 8-bit formats
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
    // Counts rows that held a NaN or an infinity; null: nobody asks.
    uint32_t* not_finite = nullptr;
};

// nullptr: encode_floats() takes it. Otherwise a static sentence that says why not.
const char* encode_floats_supports(const EncodeFloatsParams& params);

// REQUIRES: encode_floats_supports() == nullptr, slots below n_blocks * block_tokens. Returns the
// CUDA runtime's error code, 0 for none.
int encode_floats(const EncodeFloatsParams& params, CUstream_st* stream);

}  // namespace quire::kernels::cuda
