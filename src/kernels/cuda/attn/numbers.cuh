// Chunks of pages of 16-bit numbers, f16 or bf16: codec raw16's, K [head_dim][block_tokens], then V
// [block_tokens][head_dim].
//
// In a slot K is [head_dim][32 tokens] and V [32 tokens][head_dim], each row with 16 bytes more, so
// that the eight rows of a small matrix lie in banks of their own. Both are the transpose of what
// the products take, which ldmatrix transposes. Tokens are rows in order: token 8 i + g of a chunk
// is row g + 8 (i % 2) of tile i / 2.
#pragma once

#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/ptx/lane_copy.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {

template <int kHeadDim>
struct NumberSlot {
    static constexpr uint32_t kKeyStride = 2 * kChunkTokens + 16;
    static constexpr uint32_t kValueStride = 2 * kHeadDim + 16;
    static constexpr uint32_t kValuesAt = kHeadDim * kKeyStride;
    static constexpr uint32_t kBytes = kValuesAt + kChunkTokens * kValueStride;
};

// One side of a chunk, to `slot`. pages, index: of its two groups of 16 tokens.
template <int kHeadDim, bool kKeys>
__device__ __forceinline__ void bring_numbers(uint32_t slot, const std::byte* const (&pages)[2],
                                              const uint32_t (&index)[2], uint32_t block_tokens) {
    using Slot = NumberSlot<kHeadDim>;
    constexpr uint32_t kGroupBytes = 2 * codec::hot::kLanes;  // of a dimension
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (kKeys) {  // a row of 64 bytes is four lanes', two groups
        const bool second = lane % 4 >= 2;
        const std::byte* from = (second ? pages[1] : pages[0]) +
                                (second ? index[1] : index[0]) * kGroupBytes + lane % 2 * 16 +
                                uint64_t{lane / 4} * block_tokens * 2;
        const uint32_t to = slot + lane / 4 * Slot::kKeyStride + lane % 4 * 16;
#pragma unroll
        for (uint32_t dim = 0; dim < kHeadDim; dim += 8) {
            copy_16(to + dim * Slot::kKeyStride, from);
            from += 8 * 2 * block_tokens;
        }
    } else {
        constexpr uint32_t kVectors = kHeadDim / 8, kGroup = codec::hot::kLanes * kVectors;
        static_assert(kGroup % 32 == 0);
#pragma unroll
        for (uint32_t first = 0; first < 2 * kGroup; first += 32) {
            const uint32_t vector = first + lane, group = first / kGroup;
            const std::byte* from = pages[group] + uint64_t{kHeadDim} * block_tokens * 2 +
                                    (index[group] * kGroup + vector - group * kGroup) * 16;
            copy_16(slot + Slot::kValuesAt + vector / kVectors * Slot::kValueStride +
                        vector % kVectors * 16,
                    from);
        }
    }
}

// Where lane l's row of four small matrices begins: row l % 8 of matrices 0 and 1, which are 16
// bytes apart, and those of 2 and 3 eight rows below.
__device__ __forceinline__ uint32_t matrix_row(uint32_t stride) {
    const uint32_t lane = threadIdx.x % 32;
    return (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 16;
}

template <bool kBf16>
__device__ __forceinline__ void multiply(float (&c)[4], const uint4& a, const uint2& b) {
    if constexpr (kBf16)
        mma_bf16(c, {a.x, a.y, a.z, a.w}, {b.x, b.y});
    else
        mma_f16(c, {a.x, a.y, a.z, a.w}, {b.x, b.y});
}

template <int kHeadDim, int kTiles, bool kBf16>
__device__ __forceinline__ void score_numbers(uint32_t slot, const uint2* q,
                                              float (&s)[kTiles][2][4]) {
    using Slot = NumberSlot<kHeadDim>;
    constexpr int kSteps = kHeadDim / 16;
    const uint32_t rows = slot + matrix_row(Slot::kKeyStride);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const uint32_t at = rows + static_cast<uint32_t>(step) * 16 * Slot::kKeyStride;
        const uint4 near = load_transposed(at), far = load_transposed(at + 32);
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
            const uint2 x = q[(n * kSteps + step) * 32 + static_cast<int>(threadIdx.x % 32)];
            multiply<kBf16>(s[n][0], near, x);
            multiply<kBf16>(s[n][1], far, x);
        }
    }
}

// out[n][i]: dimensions 16 i to + 15.
template <int kHeadDim, int kTiles, bool kBf16, int kSums>
__device__ __forceinline__ void add_numbers(uint32_t slot, const uint32_t (&w)[kTiles][2][2],
                                            float (&out)[kTiles][kSums][4]) {
    using Slot = NumberSlot<kHeadDim>;
    const uint32_t rows = slot + Slot::kValuesAt + matrix_row(Slot::kValueStride);
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
            const uint4 a = load_transposed(rows + static_cast<uint32_t>(i) * 32 +
                                            static_cast<uint32_t>(tile) * 16 * Slot::kValueStride);
#pragma unroll
            for (int n = 0; n < kTiles; ++n)
                multiply<kBf16>(out[n][i], a, {w[n][tile][0], w[n][tile][1]});
        }
    }
}

}  // namespace quire::kernels::cuda
