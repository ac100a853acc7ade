// A row of new numbers in the registers of four threads, eight numbers at a time: thread t has
// those at 8t, 8 (t + 4), ...
//
// bf16 that needs nothing taken off stays as it came, half the registers, so that the next row can
// be on its way meanwhile.
#pragma once

#include <cstdint>

#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/encode_floats.h"

namespace quire::kernels::cuda {

inline bool are_plain_bf16(Numbers element, const FloatRows& rows) {
    return element == Numbers::bf16 && are_aligned(rows.rows, rows.token_stride, rows.head_stride);
}

template <int kHeadDim>
struct EightPlaces {
    static constexpr int kCount = (kHeadDim / 8 + 3) / 4;  // of a thread

    static __device__ __forceinline__ int eight_of(int i) {
        return 4 * i + static_cast<int>(lane_of_warp() % 4);
    }
    static __device__ __forceinline__ bool has(int i) {
        return kHeadDim % 32 == 0 || eight_of(i) < kHeadDim / 8;
    }
};

// load() begins to bring the row at number `at`; largest() is a NaN when a number is one; pair()
// gives numbers 2j and 2j + 1 of the thread's eight i.
template <RowKind kKind, int kHeadDim>
struct EightsOfRow : EightPlaces<kHeadDim> {
    using Places = EightPlaces<kHeadDim>;
    float x[Places::kCount][8];

    __device__ __forceinline__ void load(Numbers element, const void* rows, int64_t at) {
        if (element == Numbers::f32)
            load_as<float>(static_cast<const float*>(rows) + at);
        else if (element == Numbers::f16)
            load_as<__half>(static_cast<const __half*>(rows) + at);
        else
            load_as<__nv_bfloat16>(static_cast<const __nv_bfloat16*>(rows) + at);
    }
    template <class T>
    __device__ __forceinline__ void load_as(const T* row) {
        const bool aligned = reinterpret_cast<uintptr_t>(row) % 16 == 0;
#pragma unroll
        for (int i = 0; i < Places::kCount; ++i) {
            if (!Places::has(i)) continue;
            const T* from = row + 8 * Places::eight_of(i);
            uint4 words[sizeof(T) / 2];
            if (aligned) {
#pragma unroll
                for (size_t w = 0; w < sizeof(T) / 2; ++w)
                    words[w] = __ldcs(reinterpret_cast<const uint4*>(from) + w);
            } else {
                auto* numbers = reinterpret_cast<T*>(words);
#pragma unroll
                for (int j = 0; j < 8; ++j) numbers[j] = from[j];
            }
            widen<T>(reinterpret_cast<const uint32_t*>(words), x[i]);
        }
    }
    template <class T>
    static __device__ __forceinline__ void widen(const uint32_t* words, float (&out)[8]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float2 two;
            if constexpr (sizeof(T) == 4)
                two = {__uint_as_float(words[2 * j]), __uint_as_float(words[2 * j + 1])};
            else
                two = widened<T>(words[j]);
            out[2 * j] = two.x, out[2 * j + 1] = two.y;
        }
    }
    __device__ __forceinline__ float largest() const {
        float top = 0.0f;
#pragma unroll
        for (int i = 0; i < Places::kCount; ++i) {
            if (!Places::has(i)) continue;
#pragma unroll
            for (const float number : x[i]) top = max_or_nan(top, fabsf(number));
        }
        return top;
    }
    __device__ __forceinline__ float2 pair(int i, int j) const {
        return {x[i][2 * j], x[i][2 * j + 1]};
    }
};

template <int kHeadDim>
struct EightsOfRow<RowKind::plain_bf16, kHeadDim> : EightPlaces<kHeadDim> {
    using Places = EightPlaces<kHeadDim>;
    uint4 eights[Places::kCount];

    __device__ __forceinline__ void load(Numbers, const void* rows, int64_t at) {
        const auto* row =
            reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(rows) + at);
#pragma unroll
        for (int i = 0; i < Places::kCount; ++i)
            if (Places::has(i)) eights[i] = __ldcs(row + Places::eight_of(i));
    }
    __device__ __forceinline__ float largest() const {
        __nv_bfloat162 top = __float2bfloat162_rn(0.0f);
#pragma unroll
        for (int i = 0; i < Places::kCount; ++i) {
            if (!Places::has(i)) continue;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                __nv_bfloat162 two;
                const uint32_t bits = word(i, j);
                memcpy(&two, &bits, 4);
                top = __hmax2_nan(top, __habs2(two));
            }
        }
        uint32_t bits;
        memcpy(&bits, &top, 4);
        const float2 two = widened<__nv_bfloat16>(bits);
        return max_or_nan(two.x, two.y);
    }
    __device__ __forceinline__ float2 pair(int i, int j) const {
        return widened<__nv_bfloat16>(word(i, j));
    }
    __device__ __forceinline__ uint32_t word(int i, int j) const {
        const uint4& w = eights[i];
        return j == 0 ? w.x : j == 1 ? w.y : j == 2 ? w.z : w.w;
    }
};

}  // namespace quire::kernels::cuda
