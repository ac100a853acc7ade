// New rows of K or V from device memory to registers, eight a warp, less their means.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/encode.h"
#include "kernels/cuda/ptx/lane_copy.cuh"

namespace quire::kernels::cuda {

// What the host chooses a kernel by: with both ways in one, the code that follows is made twice.
enum class RowKind : uint8_t {
    any,
    plain_bf16,  // bf16 without means, at multiples of 16 bytes
};
// Rows of 16-bit numbers, strides in numbers.
inline bool are_aligned(const void* rows, int64_t token_stride, int64_t head_stride) {
    return reinterpret_cast<uintptr_t>(rows) % 16 == 0 && token_stride % 8 == 0 &&
           head_stride % 8 == 0;
}
inline bool are_plain_bf16(Numbers element, const EncodeRows& rows) {
    return element == Numbers::bf16 && rows.mean == nullptr &&
           are_aligned(rows.rows, rows.token_stride, rows.head_stride);
}

__device__ __forceinline__ float number_at(Numbers element, const void* rows, int64_t i) {
    if (element == Numbers::bf16)
        return __bfloat162float(static_cast<const __nv_bfloat16*>(rows)[i]);
    if (element == Numbers::f16) return __half2float(static_cast<const __half*>(rows)[i]);
    return static_cast<const float*>(rows)[i];
}

// Asks for rows of the tokens of a window before it is known where they go: half of its 16 tokens
// a warp, a token a quad.
template <class Rows>
__device__ __forceinline__ void prefetch_rows(Numbers element, const Rows& rows, int32_t head_dim,
                                              int32_t head, int32_t token, int32_t n_tokens) {
    token += static_cast<int32_t>(lane_of_warp() / 4);
    if (token >= n_tokens) return;
    const int32_t number_bytes = element == Numbers::f32 ? 4 : 2;
    const std::byte* row = static_cast<const std::byte*>(rows.rows) +
                           (token * rows.token_stride + head * rows.head_stride) * number_bytes;
    for (auto i = static_cast<int32_t>(lane_of_warp() % 4); i * 128 < head_dim * number_bytes;
         i += 4)
        prefetch(row + i * 128);
}

// Rows lie this far apart in shared memory, so that eight rows are in different banks.
constexpr int32_t staged_row_bytes(int32_t number_bytes, int32_t head_dim) {
    return number_bytes * head_dim + 16;
}
constexpr int32_t staging_bytes(Numbers element, int32_t head_dim) {
    return 8 * staged_row_bytes(element == Numbers::f32 ? 4 : 2, head_dim);
}

// A row by the four threads of a quad, kChunk bytes at a time.
template <int kChunk, int kRowBytes>
__device__ __forceinline__ void stage(const std::byte* row, std::byte* to) {
    constexpr int kChunks = kRowBytes / kChunk;
    const auto t = static_cast<int>(lane_of_warp() % 4);
#pragma unroll(kChunk == 16 ? 16 : 1)
    for (int i = 0; i < (kChunks + 3) / 4; ++i) {
        if (kChunks % 4 != 0 && 4 * i + t >= kChunks) continue;
        const std::byte* source = row + (4 * i + t) * kChunk;
        std::byte* target = to + (4 * i + t) * kChunk;
        if constexpr (kChunk == 16) {
            copy_16_alone(shared_address(target), source);
        } else if constexpr (kChunk == 4) {
            *reinterpret_cast<uint32_t*>(target) = *reinterpret_cast<const uint32_t*>(source);
        } else {
            *reinterpret_cast<uint16_t*>(target) = *reinterpret_cast<const uint16_t*>(source);
        }
    }
}

// Of a pair of 16-bit numbers.
template <class T>
__device__ __forceinline__ float2 widened(uint32_t word);
template <>
__device__ __forceinline__ float2 widened<__nv_bfloat16>(uint32_t word) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
template <>
__device__ __forceinline__ float2 widened<__half>(uint32_t word) {
    __half2 pair;
    memcpy(&pair, &word, 4);
    return __half22float2(pair);
}

template <class T, int kHeadDim, bool kAligned>
__device__ __forceinline__ void fetch_rows_of(const std::byte* row, std::byte* staging) {
    constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(T));
    std::byte* to = staging + lane_of_warp() / 4 * staged_row_bytes(sizeof(T), kHeadDim);
    if (kAligned || reinterpret_cast<uintptr_t>(row) % 16 == 0)
        stage<16, kRowBytes>(row, to);
    else
        stage<sizeof(T), kRowBytes>(row, to);
}

// Begins to bring the row of each quad, eight a warp, to shared memory.
template <RowKind kKind, int kHeadDim>
__device__ __forceinline__ void fetch_rows(Numbers element, const std::byte* row,
                                           std::byte* staging) {
    if constexpr (kKind == RowKind::plain_bf16)
        fetch_rows_of<uint16_t, kHeadDim, true>(row, staging);
    else if (element == Numbers::f32)
        fetch_rows_of<float, kHeadDim, false>(row, staging);
    else
        fetch_rows_of<uint16_t, kHeadDim, false>(row, staging);
}
// Until all that was begun is there.
__device__ __forceinline__ void wait_for_rows() {
    wait_for_copies();
    __syncwarp();
}

template <class T, int kHeadDim>
__device__ __forceinline__ void read_rows_of(const std::byte* staging, QuadRow<kHeadDim>* out) {
    const uint32_t g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    constexpr int kStaged = staged_row_bytes(sizeof(T), kHeadDim);
    const std::byte* row = staging + g * kStaged + 2 * t * sizeof(T);
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
        const std::byte* at = row + 8 * i * sizeof(T);
        float2 two;
        if constexpr (sizeof(T) == 4)
            two = *reinterpret_cast<const float2*>(at);
        else
            two = widened<T>(*reinterpret_cast<const uint32_t*>(at));
        out->x[i / 2][i % 2 * 2] = two.x;
        out->x[i / 2][i % 2 * 2 + 1] = two.y;
    }
}

// Less `mean`, of the head; null: nothing is taken off.
template <int kHeadDim>
__device__ __forceinline__ void read_rows(Numbers element, const float* mean,
                                          const std::byte* staging, QuadRow<kHeadDim>* out) {
    if (element == Numbers::bf16)
        read_rows_of<__nv_bfloat16>(staging, out);
    else if (element == Numbers::f16)
        read_rows_of<__half>(staging, out);
    else
        read_rows_of<float>(staging, out);
    if (mean == nullptr) return;
    mean += 2 * (lane_of_warp() % 4);
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; ++v)
#pragma unroll
        for (int q = 0; q < 4; ++q) out->x[v][q] -= mean[16 * v + (q & 1) + 8 * (q >> 1)];
}

}  // namespace quire::kernels::cuda
