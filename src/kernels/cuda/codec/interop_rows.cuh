// What encoders of other engines' formats share: eight rows a warp, a quad of threads a row, rows
// numbered through KV heads, then through the new tokens.
#pragma once

#include <cstdint>

#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/encode_interop.h"

namespace quire::kernels::cuda {

inline constexpr uint32_t kInteropThreads = 256;

// The row of a quad.
struct InteropRow {
    bool written;
    int32_t head;
    uint32_t token;   // of its block
    int64_t numbers;  // from the first row's, in numbers
    std::byte* page;

    __device__ __forceinline__ InteropRow(const EncodeInteropParams& p, const FloatRows& rows) {
        const int64_t quad = (int64_t{blockIdx.x} * kInteropThreads + threadIdx.x) / 4;
        const int64_t index = quad / p.kv_heads;
        const int64_t slot = index < p.n_tokens ? p.slots[index] : -1;
        QUIRE_DEVICE_CHECK(slot < p.n_blocks * p.block_tokens,
                           "slots: one is behind the last block");
        written = slot >= 0 && slot < p.n_blocks * p.block_tokens;
        head = static_cast<int32_t>(quad - index * p.kv_heads);
        const int64_t block = written ? slot / p.block_tokens : 0;
        token = written ? static_cast<uint32_t>(slot - block * p.block_tokens) : 0;
        numbers = written ? index * rows.token_stride + head * rows.head_stride : 0;
        page = p.pages + block * p.block_stride + head * p.head_stride;
    }
};
inline uint32_t interop_blocks(const EncodeInteropParams& p) {
    constexpr int64_t kRows = kInteropThreads / 4;
    return static_cast<uint32_t>((int64_t{p.n_tokens} * p.kv_heads + kRows - 1) / kRows);
}

}  // namespace quire::kernels::cuda
