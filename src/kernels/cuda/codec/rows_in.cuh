// New rows of K or V from device memory to registers, eight a warp, less their means.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

// Rows lie this far apart in shared memory, so that eight rows are in different banks.
constexpr int32_t staged_row_bytes(int32_t number_bytes, int32_t head_dim) {
    return number_bytes * head_dim + 16;
}
constexpr int32_t staging_bytes(Numbers element, int32_t head_dim) {
    return 8 * staged_row_bytes(element == Numbers::f32 ? 4 : 2, head_dim);
}

// A whole row, by chunks of kChunk bytes that follow each other in a row; `row_of` has the eight
// rows' numbers, `written` says which there are.
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
    if constexpr (kChunk == 16) asm volatile("cp.async.wait_all;" ::: "memory");
}

__device__ __forceinline__ float2 two_numbers(const float* p) {
    return *reinterpret_cast<const float2*>(p);
}
__device__ __forceinline__ float2 two_numbers(const __half* p) {
    return __half22float2(*reinterpret_cast<const __half2*>(p));
}
__device__ __forceinline__ float2 two_numbers(const __nv_bfloat16* p) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(p);
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

template <class T, int kHeadDim>
__device__ __forceinline__ void read_rows_of(const EncodeRows& rows, int32_t head,
                                             const int32_t* row_of, uint32_t written,
                                             std::byte* staging, QuadRow<kHeadDim>* out) {
    constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(T));
    const auto* from = static_cast<const std::byte*>(rows.rows) +
                       head * rows.head_stride * static_cast<int64_t>(sizeof(T));
    const int64_t token_bytes = rows.token_stride * static_cast<int64_t>(sizeof(T));
    __syncwarp();
    if (((reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(token_bytes)) & 15) == 0)
        stage<16, kRowBytes>(from, token_bytes, row_of, written, staging);
    else
        stage<sizeof(T), kRowBytes>(from, token_bytes, row_of, written, staging);
    __syncwarp();
    const uint32_t g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    const T* numbers = reinterpret_cast<const T*>(staging + g * (kRowBytes + 16)) + 2 * t;
    const float* mean =
        rows.mean == nullptr ? nullptr : rows.mean + int64_t{head} * kHeadDim + 2 * t;
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; ++v) {
        const float2 a = two_numbers(numbers + 16 * v), b = two_numbers(numbers + 16 * v + 8);
        float(&x)[4] = out->x[v];
        x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
        if (mean == nullptr) continue;
        x[0] -= mean[16 * v], x[1] -= mean[16 * v + 1];
        x[2] -= mean[16 * v + 8], x[3] -= mean[16 * v + 9];
    }
}

template <int kHeadDim>
__device__ __forceinline__ void read_rows(Numbers element, const EncodeRows& rows, int32_t head,
                                          const int32_t* row_of, uint32_t written,
                                          std::byte* staging, QuadRow<kHeadDim>* out) {
    if (element == Numbers::bf16)
        read_rows_of<__nv_bfloat16>(rows, head, row_of, written, staging, out);
    else if (element == Numbers::f16)
        read_rows_of<__half>(rows, head, row_of, written, staging, out);
    else
        read_rows_of<float>(rows, head, row_of, written, staging, out);
}

}  // namespace quire::kernels::cuda
