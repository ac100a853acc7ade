// The kernels of encode_floats.h, one for each format, head_dim and side.
//
// Two warps take 16 tokens of a KV head, a quad of threads a row: thread t has the numbers at 8t,
// 8 (t + 4), ..., eight each. V goes straight to the page; K is turned in shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/codec/float_codes.cuh"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/codec/runs.cuh"
#include "kernels/cuda/codec/work_cut.h"
#include "kernels/cuda/encode_floats.h"

namespace quire::kernels::cuda {

inline constexpr uint32_t kFloatPairs = 4;

template <int kHeadDim>
struct EightsOfRow {
    static constexpr int kCount = (kHeadDim / 8 + 3) / 4;  // of a thread
    float x[kCount][8];

    static __device__ __forceinline__ int eight_of(int i) {
        return 4 * i + static_cast<int>(lane_of_warp() % 4);
    }
    static __device__ __forceinline__ bool has(int i) {
        return kHeadDim % 32 == 0 || eight_of(i) < kHeadDim / 8;
    }

    template <class T>
    __device__ __forceinline__ void load(const T* row) {
        const bool aligned = reinterpret_cast<uintptr_t>(row) % 16 == 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (!has(i)) continue;
            const T* from = row + 8 * eight_of(i);
            uint4 words[sizeof(T) / 2];
            if (aligned) {
#pragma unroll
                for (size_t w = 0; w < sizeof(T) / 2; ++w)
                    words[w] = __ldcs(reinterpret_cast<const uint4*>(from) + w);
            } else {
                copy_numbers(words, from);
            }
            widen<T>(words, x[i]);
        }
    }
    template <class T>
    static __device__ __forceinline__ void copy_numbers(uint4* words, const T* from) {
        auto* numbers = reinterpret_cast<T*>(words);
#pragma unroll
        for (int j = 0; j < 8; ++j) numbers[j] = from[j];
    }
    template <class T>
    static __device__ __forceinline__ void widen(const uint4* words, float (&x)[8]) {
        const auto* word = reinterpret_cast<const uint32_t*>(words);
        if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int j = 0; j < 8; ++j) x[j] = __uint_as_float(word[j]);
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float2 two = widened<T>(word[j]);
                x[2 * j] = two.x, x[2 * j + 1] = two.y;
            }
        }
    }
    template <class Visit>
    __device__ __forceinline__ void for_each(Visit visit) const {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (!has(i)) continue;
#pragma unroll
            for (int j = 0; j < 8; ++j) visit(x[i][j]);
        }
    }
};

// Rows of 16 codes of a dimension in shared memory, with a gap after every eight.
template <class Code>
__device__ __forceinline__ uint32_t turned_at(int dim, uint32_t token) {
    return static_cast<uint32_t>(dim) * 16 * sizeof(Code) +
           static_cast<uint32_t>(dim) / 8 * 8 * sizeof(Code) + token * sizeof(Code);
}
template <class Code>
constexpr uint32_t turned_bytes(int head_dim) {
    return static_cast<uint32_t>(head_dim) * 17 * sizeof(Code);
}

template <class Target, int kHeadDim, bool kDimMajor>
struct FloatsPair {
    using Code = typename Target::Code;
    const EncodeFloatsParams& p;
    const FloatRows& rows;
    std::byte* turned;
    uint32_t half;

    __device__ __forceinline__ void sync() const {
        asm volatile("bar.sync %0, 64;" : : "r"(1 + threadIdx.x / 64) : "memory");
    }

    // The scale of the quad's row; stored when it is the row's own.
    __device__ __forceinline__ float scale_of(const EightsOfRow<kHeadDim>& row, float largest,
                                              bool finite, bool written, int32_t head,
                                              std::byte* stored) const {
        if constexpr (!kIsFp8<Target>) {
            return 1.0f;
        } else {
            if (p.scaling == codec::fp8::Scaling::one) return 1.0f;
            if (p.scaling == codec::fp8::Scaling::head) return rows.scales[head];
            if (__any_sync(kWholeWarp, !finite)) {
                largest = 0.0f;
                row.for_each([&](float x) {
                    if (fabsf(x) < INFINITY) largest = fmaxf(largest, fabsf(x));
                });
                largest = quad_max_or_nan(largest);
            }
            const float least = codec::fp8::kSmallestScale, most = codec::fp8::kLargestScale;
            const __half scale = __float2half_rn(
                fmaxf(fminf(__fdiv_rn(largest, Target::kFormat.largest), most), least));
            if (written && lane_of_warp() % 4 == 0) *reinterpret_cast<__half*>(stored) = scale;
            return __half2float(scale);
        }
    }

    __device__ __forceinline__ void put(int eight, uint32_t token, const uint32_t (&words)[4],
                                        std::byte* side) const {
        constexpr int kWords = static_cast<int>(2 * sizeof(Code));
        if constexpr (kDimMajor) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const uint32_t word = words[j * sizeof(Code) / 4];
                const auto code = static_cast<Code>(word >> (j * sizeof(Code) % 4 * 8));
                *reinterpret_cast<Code*>(turned + turned_at<Code>(8 * eight + j, token)) = code;
            }
        } else {
            auto* to = reinterpret_cast<uint32_t*>(
                side + (token * kHeadDim + 8 * static_cast<uint32_t>(eight)) * sizeof(Code));
            if constexpr (kWords == 2)
                *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
            else
                *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }

    // Codes of eight numbers, in words.
    template <class Quotient, class Pair>
    static __device__ __forceinline__ void make_codes(const float (&x)[8], Quotient quotient,
                                                      Pair pair, uint32_t (&words)[4]) {
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            const uint32_t two = pair(quotient(x[j]), quotient(x[j + 1]));
            if constexpr (!kIsFp8<Target>)
                words[j / 2] = two;
            else
                words[j / 4] = j % 4 == 0 ? two : words[j / 4] | two << 16;
        }
    }

    // `token`: of the group, whose first token has its codes at `side` when they are V's.
    __device__ __forceinline__ void code_row(const EightsOfRow<kHeadDim>& row, uint32_t token,
                                             bool written, int32_t head, std::byte* side,
                                             std::byte* scales) const {
        float largest = 0.0f;
        row.for_each([&](float x) { largest = max_or_nan(largest, fabsf(x)); });
        largest = quad_max_or_nan(largest);
        const bool finite = largest < INFINITY;
        const Divisor by = Divisor::of(
            scale_of(row, largest, finite || !written, written, head, scales + 2 * token));
        const bool near = !written || (finite && by.is_near(largest));
        const bool all_near = __all_sync(kWholeWarp, near);
#pragma unroll
        for (int i = 0; i < EightsOfRow<kHeadDim>::kCount; ++i) {
            if (!row.has(i) || !written) continue;
            uint32_t words[4] = {};
            if (all_near)
                make_codes(
                    row.x[i], [&](float x) { return kIsFp8<Target> ? by.near(x) : x; },
                    [](float a, float b) { return Target::pair(a, b); }, words);
            else
                make_codes(
                    row.x[i], [&](float x) { return kIsFp8<Target> ? __fdiv_rn(x, by.scale) : x; },
                    [](float a, float b) {
                        return careful<Target>(a) | careful<Target>(b) << (8 * sizeof(Code));
                    },
                    words);
            put(EightsOfRow<kHeadDim>::eight_of(i), token, words, side);
        }
        if (written && !finite && lane_of_warp() % 4 == 0 && p.not_finite != nullptr)
            atomicAdd(p.not_finite, 1u);
    }

    // K's codes of the group, of which the first dimension's are at `side`.
    __device__ __forceinline__ void store_turned(uint32_t written, std::byte* side) const {
        const auto pitch = static_cast<uint32_t>(p.block_tokens) * sizeof(Code);
        for (uint32_t i = threadIdx.x % 64; i < kHeadDim * sizeof(Code); i += 64) {
            const auto dim = static_cast<int>(i / sizeof(Code));
            const uint32_t piece = i % sizeof(Code) * 16;
            const std::byte* from = turned + turned_at<Code>(dim, 0) + piece;
            std::byte* to = side + static_cast<uint32_t>(dim) * pitch + piece;
            if (written == 0xffff) {
                const uint2 low = *reinterpret_cast<const uint2*>(from);
                const uint2 high = *reinterpret_cast<const uint2*>(from + 8);
                *reinterpret_cast<uint4*>(to) = make_uint4(low.x, low.y, high.x, high.y);
                continue;
            }
            const uint32_t first = i % sizeof(Code) * 8;  // token
            for (uint32_t t = 0; t < 16 / sizeof(Code); ++t)
                if (written >> (first + t) & 1)
                    reinterpret_cast<Code*>(to)[t] = reinterpret_cast<const Code*>(from)[t];
        }
    }

    __device__ __forceinline__ void code_heads(const WorkCut& cut, const Run& run,
                                               const int32_t* tokens_of_run, int32_t first,
                                               int32_t last) const {
        const uint32_t token = 8 * half + lane_of_warp() / 4;
        const bool written = (run.written >> token & 1) != 0;
        const auto index = static_cast<uint32_t>(run.group) & ((1u << cut.log_groups) - 1);
        const auto side_bytes = static_cast<int64_t>(kHeadDim * sizeof(Code)) * p.block_tokens;
        std::byte* page =
            p.pages + (run.group >> cut.log_groups) * p.block_stride + first * p.head_stride;
        const int64_t row = (written ? tokens_of_run[token] : 0) * rows.token_stride;
        for (int32_t head = first; head < last; ++head, page += p.head_stride) {
            EightsOfRow<kHeadDim> numbers;
            const int64_t from = row + head * rows.head_stride;
            if (p.element == Numbers::bf16)
                numbers.load(static_cast<const __nv_bfloat16*>(rows.rows) + from);
            else if (p.element == Numbers::f16)
                numbers.load(static_cast<const __half*>(rows.rows) + from);
            else
                numbers.load(static_cast<const float*>(rows.rows) + from);
            std::byte* scales = page + 2 * side_bytes +
                                2 * (index * kGroupTokens + (kDimMajor ? 0 : p.block_tokens));
            std::byte* side =
                kDimMajor ? page + index * kGroupTokens * sizeof(Code)
                          : page + side_bytes + index * (kGroupTokens * kHeadDim * sizeof(Code));
            code_row(numbers, token, written, head, side, scales);
            if constexpr (kDimMajor) {
                sync();
                store_turned(run.written, side);
                sync();
            }
        }
    }
};

template <class Target, int kHeadDim, bool kDimMajor>
__global__ void __launch_bounds__(kFloatPairs * 64, kHeadDim <= 128 ? 3 : 2)
    floats_kernel(const EncodeFloatsParams p, const WorkCut cut) {
    using Code = typename Target::Code;
    __shared__ __align__(16)
        std::byte turned[kFloatPairs][kDimMajor ? turned_bytes<Code>(kHeadDim) : 16];
    __shared__ int32_t tokens[kFloatPairs * 2][kGroupTokens];
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t unit = blockIdx.x * kFloatPairs + warp / 2;
    const uint32_t window = unit / static_cast<uint32_t>(cut.shares);
    const auto share = static_cast<int32_t>(unit - window * static_cast<uint32_t>(cut.shares));
    if (window >= static_cast<uint32_t>(cut.windows)) return;
    const FloatsPair<Target, kHeadDim, kDimMajor> work = {p, kDimMajor ? p.k : p.v,
                                                          turned[warp / 2], warp % 2};
    const int32_t first = share * cut.share_heads;
    const int32_t last = min(first + cut.share_heads, p.kv_heads);
    const RunFinder finder(p.slots, p.n_tokens, p.n_blocks << cut.log_groups,
                           static_cast<int32_t>(window) * cut.window_tokens, cut.window_tokens);
    for (uint32_t starts = finder.starts; starts != 0; starts &= starts - 1)
        work.code_heads(cut, finder.run_at(__ffs(static_cast<int>(starts)) - 1, tokens[warp]),
                        tokens[warp], first, last);
}

template <class Target, int kHeadDim>
int launch_floats_of(const EncodeFloatsParams& p, CUstream_st* stream) {
    const WorkCut cut = cut_work(p.n_tokens, p.kv_heads, p.block_tokens);
    const int64_t pairs = int64_t{cut.windows} * cut.shares;
    const auto blocks = static_cast<uint32_t>((pairs + kFloatPairs - 1) / kFloatPairs);
    if (p.k.rows != nullptr)
        floats_kernel<Target, kHeadDim, true><<<blocks, kFloatPairs * 64, 0, stream>>>(p, cut);
    if (p.v.rows != nullptr)
        floats_kernel<Target, kHeadDim, false><<<blocks, kFloatPairs * 64, 0, stream>>>(p, cut);
    return static_cast<int>(cudaGetLastError());
}

template <class Target>
int launch_floats(const EncodeFloatsParams& p, CUstream_st* stream) {
    switch (p.head_dim) {
        case 64:
            return launch_floats_of<Target, 64>(p, stream);
        case 80:
            return launch_floats_of<Target, 80>(p, stream);
        case 96:
            return launch_floats_of<Target, 96>(p, stream);
        case 128:
            return launch_floats_of<Target, 128>(p, stream);
        case 192:
            return launch_floats_of<Target, 192>(p, stream);
        default:
            return launch_floats_of<Target, 256>(p, stream);
    }
}

}  // namespace quire::kernels::cuda
