// The kernels of vLLM's TurboQuant slots. A quad codes a row; its part of a slot goes through
// shared memory, for slots are aligned to two bytes only.
#pragma once

#include "codec/slots/slots.h"
#include "codec/slots/table.h"
#include "kernels/cuda/codec/float_codes.cuh"
#include "kernels/cuda/codec/interop_rows.cuh"
#include "kernels/cuda/codec/rotate_rows.cuh"
#include "kernels/cuda/launch_kernel.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kSlotPartBytes = 272;  // of one side, at most

template <uint32_t kBits, int kHeadDim>
static __device__ constexpr codec::slots::Table kSlotTable =
    codec::slots::table_of(kBits, kHeadDim);

// Codes of the row's numbers, kBits each in their order; `code_of` has them.
template <uint32_t kBits, int kHeadDim, class CodeOf>
__device__ __forceinline__ void put_codes(const QuadRow<kHeadDim>& row, CodeOf code_of,
                                          std::byte* to) {
    const uint32_t t = lane_of_warp() % 4;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
        const uint32_t a = code_of(row.x[i / 2][i % 2 * 2]);
        const uint32_t b = code_of(row.x[i / 2][i % 2 * 2 + 1]);
        std::byte* eight = to + i * static_cast<int>(kBits);
        if constexpr (kBits == 8) {
            eight[2 * t] = static_cast<std::byte>(a);
            eight[2 * t + 1] = static_cast<std::byte>(b);
        } else if constexpr (kBits == 4) {
            eight[t] = static_cast<std::byte>(a | b << 4);
        } else {
            uint32_t word = (a | b << 3) << (6 * t);
            word |= __shfl_xor_sync(kWholeWarp, word, 1);
            word |= __shfl_xor_sync(kWholeWarp, word, 2);
            if (t < 3) eight[t] = static_cast<std::byte>(word >> (8 * t));
        }
    }
}

__device__ __forceinline__ void put_half(std::byte* to, float x) {
    const float most = codec::slots::kLargestHalf;
    *reinterpret_cast<__half*>(to) = __float2half_rn(fminf(fmaxf(x, -most), most));
}

// False: all bytes are to be zero.
template <uint32_t kBits, int kHeadDim>
__device__ __forceinline__ bool put_key(QuadRow<kHeadDim>& row, std::byte* to) {
    if constexpr (kBits == 8) {
        put_codes<8>(row, [](float x) { return careful<E4m3Code>(x); }, to);
        return true;
    } else {
        float sums[4] = {};
#pragma unroll
        for (const float(&x)[4] : row.x)
#pragma unroll
            for (int q = 0; q < 4; ++q) sums[q] = fmaf(x[q], x[q], sums[q]);
        const float norm = __fsqrt_rn(fold_sums(sums));
#pragma unroll
        for (float(&x)[4] : row.x) {
#pragma unroll
            for (float& number : x) number = __fdiv_rn(number, norm + codec::slots::kNormFloor);
            sixteen_steps(x);
        }
        later_steps(row);
        put_codes<kBits>(
            row,
            [](float y) {
                uint32_t code = 0;
#pragma unroll
                for (int m = 0; m + 1 < 1 << kBits; ++m)
                    code += y >= kSlotTable<kBits, kHeadDim>.midpoint[m] ? 1 : 0;
                return code;
            },
            to);
        if (lane_of_warp() % 4 == 0) put_half(to + kHeadDim * kBits / 8, norm);
        return norm < INFINITY;
    }
}

template <uint32_t kBits, int kHeadDim>
__device__ __forceinline__ bool put_value(const QuadRow<kHeadDim>& row, bool finite,
                                          std::byte* to) {
    float low = INFINITY, high = -INFINITY;
    bool minus = false;
#pragma unroll
    for (const float(&x)[4] : row.x)
#pragma unroll
        for (const float number : x) {
            low = fminf(low, number), high = fmaxf(high, number);
            minus = minus || signbit(number);
        }
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        low = fminf(low, __shfl_xor_sync(kWholeWarp, low, distance));
        high = fmaxf(high, __shfl_xor_sync(kWholeWarp, high, distance));
    }
    const uint32_t any_minus = __ballot_sync(kWholeWarp, minus) >> (lane_of_warp() & 28) & 15;
    const float range = high - low;
    constexpr float kTop = (1 << kBits) - 1;
    const float step = fmaxf(__fdiv_rn(range, kTop), codec::slots::kSmallestStep);
    put_codes<kBits>(
        row,
        [&](float x) {
            return static_cast<uint32_t>(fminf(__fdiv_rn(x - low, step) + 0.5f, kTop));
        },
        to);
    if (lane_of_warp() % 4 == 0) {
        put_half(to + kHeadDim * kBits / 8, step);
        put_half(to + kHeadDim * kBits / 8 + 2, low != 0 ? low : any_minus != 0 ? -0.0f : 0.0f);
    }
    return finite && range < INFINITY;
}

// Grid: y is 0 for K, 1 for V.
template <uint32_t kKeyBits, uint32_t kValueBits, int kHeadDim>
__global__ void __launch_bounds__(kInteropThreads) slots_kernel(const EncodeInteropParams p) {
    __shared__ __align__(16) std::byte parts[kInteropThreads / 4][kSlotPartBytes];
    const bool is_key = blockIdx.y == 0;
    const FloatRows& rows = is_key ? p.k : p.v;
    if (rows.rows == nullptr) return;
    const InteropRow where(p, rows);
    const codec::slots::Shape shape = {kHeadDim, static_cast<uint32_t>(p.block_tokens), kKeyBits,
                                       kValueBits, false};
    const uint32_t t = lane_of_warp() % 4;
    QuadRow<kHeadDim> row;
    float largest = 0.0f;
#pragma unroll
    for (int v = 0; v < kHeadDim / 16; ++v)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int64_t i = where.numbers + 16 * v + 2 * t + (q & 1) + 8 * (q >> 1);
            row.x[v][q] = where.written ? number_at(p.element, rows.rows, i) : 0.0f;
            largest = max_or_nan(largest, fabsf(row.x[v][q]));
        }
    const bool finite = quad_max_or_nan(largest) < INFINITY;
    std::byte* part = parts[threadIdx.x / 4];
    const bool kept =
        is_key ? put_key<kKeyBits>(row, part) : put_value<kValueBits>(row, finite, part);
    __syncwarp();
    if (!where.written) return;
    const uint32_t bytes = is_key ? shape.k_bytes() : shape.slot_bytes() - shape.k_bytes();
    auto* to = reinterpret_cast<uint16_t*>(
        where.page + codec::slots::byte_at(shape, where.token, is_key ? 0 : shape.k_bytes()));
    for (uint32_t i = t; i < bytes / 2; i += 4)
        to[i] = kept ? reinterpret_cast<const uint16_t*>(part)[i] : uint16_t{0};
    if (t == 0 && !finite && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
}

template <uint32_t kKeyBits, uint32_t kValueBits>
int launch_slots(const EncodeInteropParams& p, CUstream_st* stream) {
    const auto kernel = p.head_dim == 64    ? slots_kernel<kKeyBits, kValueBits, 64>
                        : p.head_dim == 128 ? slots_kernel<kKeyBits, kValueBits, 128>
                                            : slots_kernel<kKeyBits, kValueBits, 256>;
    return launch_kernel(kernel, dim3(interop_blocks(p), 2), kInteropThreads, 0, stream, p);
}

}  // namespace quire::kernels::cuda
