// New rows of K and V into pages of other engines' formats, on a GPU: NVFP4 (codec/fp4) and the
// slots of vLLM's TurboQuant (codec/slots).
//
// The bytes are those that the CPU's codecs write. Nothing is allocated and nothing waited for:
// everything is queued on the caller's stream, and a CUDA graph may capture it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/encode_floats.h"

namespace quire::kernels::cuda {

enum class InteropFormat : uint8_t {
    nvfp4,
    turboquant_k8v4,
    turboquant_4bit_nc,
    turboquant_k3v4_nc,
    turboquant_3bit_nc,
};

// Pages of one layer: that of block b and KV head h is at pages + b * block_stride + h *
// head_stride. Scales of rows are NVFP4's: the float32 above the scales of blocks, for each head.
struct EncodeInteropParams {
    FloatRows k, v;
    Numbers element = Numbers::bf16;
    InteropFormat format = InteropFormat::nvfp4;
    int32_t n_tokens = 0;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;  // of rotated keys: 64, 128 or 256
    int32_t block_tokens = 0;
    // [n_tokens] block * block_tokens + token in the block; negative: not written. No two alike.
    const int64_t* slots = nullptr;
    std::byte* pages = nullptr;
    int64_t n_blocks = 0;
    int64_t block_stride = 0;  // in bytes
    int64_t head_stride = 0;   // in bytes
    // Counts rows that held a NaN or an infinity; null: nobody asks.
    uint32_t* not_finite = nullptr;
};

// nullptr: encode_interop() takes it. Otherwise a static sentence that says why not.
const char* encode_interop_supports(const EncodeInteropParams& params);

// REQUIRES: encode_interop_supports() == nullptr, slots below n_blocks * block_tokens. Returns the
// CUDA runtime's error code, 0 for none.
int encode_interop(const EncodeInteropParams& params, CUstream_st* stream);

}  // namespace quire::kernels::cuda
