// The kernels of encode_floats.h, one for each format, head_dim and kind of rows.
//
// Two warps take 16 tokens of a KV head, a quad of threads a row. V goes straight to the page; K is
// turned in shared memory.
#pragma once

#include "kernels/cuda/codec/eights.cuh"
#include "kernels/cuda/codec/float_codes.cuh"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/codec/runs.cuh"
#include "kernels/cuda/codec/token_rows.cuh"
#include "kernels/cuda/codec/work_cut.h"
#include "kernels/cuda/encode_floats.h"
#include "kernels/cuda/launch_kernel.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kFloatPairs = 4;

template <class Target, int kHeadDim, bool kDimMajor, RowKind kKind>
struct FloatsPair {
    using Code = typename Target::Code;
    using Row = EightsOfRow<kKind, kHeadDim>;
    // Of rows that are kept as words, the next one comes while one is coded.
    static constexpr bool kEarly = kKind == RowKind::plain_bf16;
    const EncodeFloatsParams& p;
    const FloatRows& rows;
    TokenRows<Code, kHeadDim> turned;
    uint32_t half;

    // Where a row goes: to which token of the group, whose codes begin at `side`.
    struct Place {
        uint32_t token;
        bool written;
        int32_t head;
        std::byte* side;
        std::byte* scale;  // of the row, if it has one
    };

    __device__ __forceinline__ void sync() const {
        meet(1 + static_cast<int>(threadIdx.x / 64), 64);
    }

    // `largest`: the row's largest finite magnitude.
    template <class Share>
    __device__ __forceinline__ float scale_of(float largest, int32_t head, Share share) const {
        if constexpr (!kIsFp8<Target>) return 1.0f;
        if (p.scaling == codec::fp8::Scaling::one) return 1.0f;
        if (p.scaling == codec::fp8::Scaling::head) return rows.scales[head];
        const float least = codec::fp8::kSmallestScale, most = codec::fp8::kLargestScale;
        return __half2float(__float2half_rn(fmaxf(fminf(share(largest), most), least)));
    }
    __device__ __forceinline__ void store_scale(const Place& place, float scale) const {
        if (kIsFp8<Target> && p.scaling == codec::fp8::Scaling::token && lane_of_warp() % 4 == 0)
            *reinterpret_cast<__half*>(place.scale) = __float2half_rn(scale);
    }

    // Eight codes, in words.
    __device__ __forceinline__ void put(int eight, const Place& place,
                                        const uint32_t (&words)[4]) const {
        if constexpr (kDimMajor) {
            turned.put(place.token, static_cast<uint32_t>(eight), words);
        } else {
            std::byte* to =
                place.side +
                (place.token * kHeadDim + 8 * static_cast<uint32_t>(eight)) * sizeof(Code);
            if constexpr (sizeof(Code) == 1)
                *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
            else
                *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }

    __device__ __forceinline__ void code_row(const Row& row, int64_t from,
                                             const Place& place) const {
        const float largest = quad_max_or_nan(row.largest());
        const float scale = scale_of(largest, place.head, [](float x) {
            constexpr float kTop = largest_code<Target>();
            return Divisor{kTop, 1.0f / kTop, 0.0f, 0.0f}.near(x);
        });
        const Divisor by = Divisor::of(scale);
        if (!__all_sync(kWholeWarp, !place.written || by.is_near(largest))) {
            code_carefully(from, place);
            return;
        }
        if (!place.written) return;
        store_scale(place, scale);
#pragma unroll
        for (int i = 0; i < Row::kCount; ++i) {
            if (!row.has(i)) continue;
            uint32_t words[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 two = row.pair(i, j);
                if constexpr (!kIsFp8<Target>) {
                    words[j] = Target::pair(two.x, two.y);
                    continue;
                }
                if constexpr (kKind == RowKind::plain_bf16)
                    two = {by.near_short(two.x), by.near_short(two.y)};
                else
                    two = {by.near(two.x), by.near(two.y)};
                const uint32_t codes = Target::pair(two.x, two.y);
                words[j / 2] = j % 2 == 0 ? codes : words[j / 2] | codes << 16;
            }
            put(Row::eight_of(i), place, words);
        }
    }

    // By the oracle's divisions, from memory: where some row has a number that is not finite, or is
    // of a size that is_near() is not for. Code of loops, for it is seldom needed.
    __device__ __forceinline__ void code_carefully(int64_t from, const Place& place) const {
        const auto t = static_cast<int>(lane_of_warp() % 4);
        float largest = 0.0f;
        bool finite = true;
#pragma unroll 1
        for (int dim = t; dim < kHeadDim; dim += 4) {
            const float x = fabsf(number_at(p.element, rows.rows, from + dim));
            finite = finite && x < INFINITY;
            if (x < INFINITY) largest = fmaxf(largest, x);
        }
        largest = quad_max_or_nan(largest);
        finite = (__ballot_sync(kWholeWarp, finite) >> (lane_of_warp() & 28) & 15) == 15;
        if (!place.written) return;
        const float scale = scale_of(largest, place.head,
                                     [](float x) { return __fdiv_rn(x, largest_code<Target>()); });
        store_scale(place, scale);
#pragma unroll 1
        for (int dim = t; dim < kHeadDim; dim += 4) {
            const float x = number_at(p.element, rows.rows, from + dim);
            const auto code =
                static_cast<Code>(careful<Target>(kIsFp8<Target> ? __fdiv_rn(x, scale) : x));
            if constexpr (kDimMajor)
                turned.code(place.token, static_cast<uint32_t>(dim)) = code;
            else
                reinterpret_cast<Code*>(place.side)[place.token * kHeadDim + dim] = code;
        }
        if (!finite && t == 0 && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
    }

    __device__ __forceinline__ void code_heads(const WorkCut& cut, const Run& run,
                                               const int32_t* tokens_of_run, int32_t first,
                                               int32_t last) const {
        Place place;
        place.token = 8 * half + lane_of_warp() / 4;
        place.written = (run.written >> place.token & 1) != 0;
        const auto index = static_cast<uint32_t>(run.group) & ((1u << cut.log_groups) - 1);
        const auto side_bytes = static_cast<int64_t>(kHeadDim * sizeof(Code)) * p.block_tokens;
        std::byte* page =
            p.pages + (run.group >> cut.log_groups) * p.block_stride + first * p.head_stride;
        place.scale = page + 2 * side_bytes +
                      2 * (index * kGroupTokens + place.token + (kDimMajor ? 0 : p.block_tokens));
        place.side = kDimMajor
                         ? page + index * kGroupTokens * sizeof(Code)
                         : page + side_bytes + index * (kGroupTokens * kHeadDim * sizeof(Code));
        int64_t from = (place.written ? tokens_of_run[place.token] : 0) * rows.token_stride +
                       first * rows.head_stride;
        Row next;
        if constexpr (kEarly) next.load(p.element, rows.rows, from);
#pragma unroll 1
        for (place.head = first; place.head < last; ++place.head) {
            if constexpr (!kEarly) next.load(p.element, rows.rows, from);
            const Row row = next;
            if (kEarly && place.head + 1 < last)
                next.load(p.element, rows.rows, from + rows.head_stride);
            code_row(row, from, place);
            if constexpr (kDimMajor) {
                sync();
                turned.store(run.written, static_cast<uint32_t>(p.block_tokens) * sizeof(Code),
                             place.side);
                sync();
            }
            from += rows.head_stride;
            place.side += p.head_stride;
            place.scale += p.head_stride;
        }
    }
};

// What a block does for K or V.
template <class Target, int kHeadDim, bool kDimMajor, RowKind kKind>
__device__ __forceinline__ void code_side(const EncodeFloatsParams& p, const WorkCut& cut,
                                          uint32_t* turned, int32_t* tokens) {
    const FloatRows& rows = kDimMajor ? p.k : p.v;
    const uint32_t half = threadIdx.x / 32 % 2;
    const uint32_t unit = blockIdx.x * kFloatPairs + threadIdx.x / 64;
    const uint32_t window = unit / static_cast<uint32_t>(cut.shares);
    const auto share = static_cast<int32_t>(unit - window * static_cast<uint32_t>(cut.shares));
    if (window >= static_cast<uint32_t>(cut.windows)) return;
    const int32_t first = share * cut.share_heads;
    const int32_t last = min(first + cut.share_heads, p.kv_heads);
    const auto token = static_cast<int32_t>(window) * cut.window_tokens;
    prefetch_rows(p.element, rows, kHeadDim, first, token + 8 * static_cast<int32_t>(half),
                  p.n_tokens);
    const RunFinder finder(p.slots, p.n_tokens, p.n_blocks << cut.log_groups, token,
                           cut.window_tokens);
    const FloatsPair<Target, kHeadDim, kDimMajor, kKind> work = {p, rows, {turned}, half};
    for (uint32_t starts = finder.starts; starts != 0; starts &= starts - 1)
        work.code_heads(cut, finder.run_at(__ffs(static_cast<int>(starts)) - 1, tokens), tokens,
                        first, last);
}

// Grid: y = 0 is the first side that has rows.
template <class Target, int kHeadDim, RowKind kKind>
__global__ void __launch_bounds__(kFloatPairs * 64, kHeadDim <= 128 ? 3 : 2)
    floats_kernel(const EncodeFloatsParams p, const WorkCut cut) {
    using Turned = TokenRows<typename Target::Code, kHeadDim>;
    __shared__ __align__(16) uint32_t turned[kFloatPairs][Turned::kBytes / 4];
    __shared__ int32_t tokens[kFloatPairs * 2][kGroupTokens];
    uint32_t* words = turned[threadIdx.x / 64];
    if (blockIdx.y == 0 && p.k.rows != nullptr)
        code_side<Target, kHeadDim, true, kKind>(p, cut, words, tokens[threadIdx.x / 32]);
    else
        code_side<Target, kHeadDim, false, kKind>(p, cut, words, tokens[threadIdx.x / 32]);
}

template <class Target, int kHeadDim>
int launch_floats_of(const EncodeFloatsParams& p, CUstream_st* stream) {
    const WorkCut cut = cut_work(p.n_tokens, p.kv_heads, p.block_tokens);
    const int64_t pairs = int64_t{cut.windows} * cut.shares;
    const uint32_t sides = (p.k.rows != nullptr ? 1u : 0u) + (p.v.rows != nullptr ? 1u : 0u);
    if (sides == 0) return 0;
    const dim3 grid(static_cast<uint32_t>((pairs + kFloatPairs - 1) / kFloatPairs), sides);
    const bool plain = (p.k.rows == nullptr || are_plain_bf16(p.element, p.k)) &&
                       (p.v.rows == nullptr || are_plain_bf16(p.element, p.v));
    const auto kernel = plain ? floats_kernel<Target, kHeadDim, RowKind::plain_bf16>
                              : floats_kernel<Target, kHeadDim, RowKind::any>;
    return launch_kernel(kernel, grid, kFloatPairs * 64, 0, stream, p, cut);
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
