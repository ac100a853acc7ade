// New rows of K or V from device memory to registers, eight a warp, less their means.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

// What the host chooses a kernel by: with both ways in one, the code that follows is made twice.
enum class RowKind : uint8_t {
    any,
    plain_bf16,  // bf16 without means, at multiples of 16 bytes
};
inline bool are_plain_bf16(Numbers element, const EncodeRows& rows) {
    return element == Numbers::bf16 && rows.mean == nullptr &&
           reinterpret_cast<uintptr_t>(rows.rows) % 16 == 0 && rows.token_stride % 8 == 0 &&
           rows.head_stride % 8 == 0;
}

// Rows lie this far apart in shared memory, so that eight rows are in different banks.
constexpr int32_t staged_row_bytes(int32_t number_bytes, int32_t head_dim) {
    return number_bytes * head_dim + 16;
}
constexpr int32_t staging_bytes(Numbers element, int32_t head_dim) {
    return 8 * staged_row_bytes(element == Numbers::f32 ? 4 : 2, head_dim);
}

// By chunks of kChunk bytes; `row_of` has the eight rows' numbers, `written` says which there are.
template <int kChunk, int kRowBytes>
__device__ __forceinline__ void stage(const std::byte* from, int64_t token_bytes,
                                      const int32_t* row_of, uint32_t written, std::byte* staging) {
    constexpr uint32_t kChunks = kRowBytes / kChunk;
    for (uint32_t i = lane_of_warp(); i < 8 * kChunks; i += 32) {
        const uint32_t row = i / kChunks, at = i % kChunks * kChunk;
        if ((written >> row & 1) == 0) continue;
        const std::byte* source = from + row_of[row] * token_bytes + at;
        std::byte* to = staging + row * (kRowBytes + 16) + at;
        if constexpr (kChunk == 16) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                         :
                         : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(source)
                         : "memory");
        } else if constexpr (kChunk == 4) {
            *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(source);
        } else {
            *reinterpret_cast<uint16_t*>(to) = *reinterpret_cast<const uint16_t*>(source);
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
__device__ __forceinline__ void fetch_rows_of(const EncodeRows& rows, int32_t head,
                                              const int32_t* row_of, uint32_t written,
                                              std::byte* staging) {
    constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(T));
    const auto* from = static_cast<const std::byte*>(rows.rows) +
                       head * rows.head_stride * static_cast<int64_t>(sizeof(T));
    const int64_t token_bytes = rows.token_stride * static_cast<int64_t>(sizeof(T));
    if (kAligned ||
        ((reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(token_bytes)) & 15) == 0)
        stage<16, kRowBytes>(from, token_bytes, row_of, written, staging);
    else
        stage<sizeof(T), kRowBytes>(from, token_bytes, row_of, written, staging);
}

// Begins to bring eight rows of a head to shared memory. All threads of the warp.
template <RowKind kKind, int kHeadDim>
__device__ __forceinline__ void fetch_rows(Numbers element, const EncodeRows& rows, int32_t head,
                                           const int32_t* row_of, uint32_t written,
                                           std::byte* staging) {
    if constexpr (kKind == RowKind::plain_bf16)
        fetch_rows_of<uint16_t, kHeadDim, true>(rows, head, row_of, written, staging);
    else if (element == Numbers::f32)
        fetch_rows_of<float, kHeadDim, false>(rows, head, row_of, written, staging);
    else
        fetch_rows_of<uint16_t, kHeadDim, false>(rows, head, row_of, written, staging);
}
// Until all that was begun is there; whoever reads what was read before may then be overwritten.
__device__ __forceinline__ void wait_for_rows() {
    asm volatile("cp.async.wait_all;" ::: "memory");
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
