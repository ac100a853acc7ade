// The kernel of encode.h. Two warps take 16 tokens of one KV head and one side: four threads code
// a row, then all 64 put the codes into planes. A block has four such pairs.
//
// A kernel for each side and width: with all widths in one, registers spill. Pairs are numbered
// through the KV heads of a window of tokens, in the order of slots, then through windows; a pair
// has those runs that begin in its window.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/codec/pack_side.cuh"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/row_codes.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/codec/runs.cuh"
#include "kernels/cuda/codec/scale_search.cuh"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

inline constexpr int kEncodePairs = 4;
inline constexpr int kEncodeThreads = kEncodePairs * kPairThreads;

template <int kHeadDim>
struct EncodePair {
    static constexpr uint32_t kCodeBytes = kGroupTokens * (kHeadDim + 16);
    const EncodeParams& p;
    const EncodeRows& rows;
    int32_t head;
    uint32_t half;       // which of the two warps
    uint8_t* codes;      // kCodeBytes, of the pair
    std::byte* staging;  // of the warp
    const int32_t* token_rows;

    __device__ __forceinline__ void sync() const {
        asm volatile("bar.sync %0, 64;" : : "r"(1 + threadIdx.x / kPairThreads) : "memory");
    }

    template <bool kDimMajor, int kBits>
    __device__ __forceinline__ void code_rows(const Run& run, std::byte* scales) const {
        const uint32_t lane = lane_of_warp(), token = 8 * half + lane / 4;
        const bool written = (run.written >> token & 1) != 0;
        QuadRow<kHeadDim> row;
        read_rows(p.element, rows, head, token_rows + 8 * half, run.written >> (8 * half) & 0xff,
                  staging, &row);
        const float largest = quad_max_or_nan(rotate(row));
        const bool finite = __float_as_int(largest) < 0x7f800000;
        const bool zeros = !finite || largest <= codec::hot::zero_below(kBits);
        const ScaleTables tables = ScaleTables::load();
        const int u = best_scale<kBits>(row, tables, largest, zeros || !written);
        QuadCodes<kHeadDim> row_codes;
        make_codes<kBits>(row, largest, tables.inverse_scale<kBits>(u),
                          tables.scale<kBits>(u), &row_codes);
        if (__any_sync(kWholeWarp, zeros) && zeros) row_codes = {};
        GroupCodes<kHeadDim, kDimMajor>{codes, run.written}.put(token, row_codes);
        if (lane % 4 != 0 || !written) return;
        scales[token] = static_cast<std::byte>(zeros ? 0 : u);
        if (!finite && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
    }

    template <bool kDimMajor, int kBits>
    __device__ __forceinline__ void code_group(const Run& run) const {
        const codec::hot::Shape shape = {p.k.bits, p.v.bits, kHeadDim,
                                         static_cast<uint32_t>(p.block_tokens)};
        const auto groups = static_cast<uint32_t>(p.block_tokens) / kGroupTokens;
        const auto index = static_cast<uint32_t>(run.group % groups);
        std::byte* page = p.pages + run.group / groups * p.block_stride + head * p.head_stride;
        code_rows<kDimMajor, kBits>(
            run, page + index * kGroupTokens +
                     (kDimMajor ? codec::hot::k_scales_offset(shape)
                                : codec::hot::v_scales_offset(shape)));
        sync();
        pack_side<kHeadDim, kDimMajor, kBits>(
            GroupCodes<kHeadDim, kDimMajor>{codes, run.written}, threadIdx.x % kPairThreads, shape,
            index, page + (kDimMajor ? codec::hot::k_offset(shape) : codec::hot::v_offset(shape)));
        sync();  // codes are overwritten by the next group
    }
};

template <int kHeadDim, bool kDimMajor, int kBits>
__global__ void __launch_bounds__(kEncodeThreads, kHeadDim <= 128 ? 2 : 1)
    encode_kernel(const EncodeParams p, int32_t window_tokens, int32_t staging_bytes) {
    extern __shared__ __align__(16) std::byte shared[];
    __shared__ int32_t token_rows[kEncodePairs * 2][kGroupTokens];
    using Pair = EncodePair<kHeadDim>;
    const uint32_t warp = threadIdx.x / 32, pair = warp / 2;
    const uint32_t unit = blockIdx.x * kEncodePairs + pair;
    const auto heads = static_cast<uint32_t>(p.kv_heads);
    const Pair work = {p,
                       kDimMajor ? p.k : p.v,
                       static_cast<int32_t>(unit % heads),
                       warp % 2,
                       reinterpret_cast<uint8_t*>(shared) + pair * Pair::kCodeBytes,
                       shared + kEncodePairs * Pair::kCodeBytes + warp * staging_bytes,
                       token_rows[warp]};
    // Of a pair that is one too many, nothing begins before the last token.
    const int64_t first = int64_t{unit / heads} * window_tokens;
    if (first >= p.n_tokens) return;
    const RunFinder finder(p, static_cast<int32_t>(first), window_tokens);
    for (uint32_t starts = finder.starts; starts != 0; starts &= starts - 1)
        work.template code_group<kDimMajor, kBits>(
            finder.run_at(__ffs(static_cast<int>(starts)) - 1, token_rows[warp]));
}

template <int kHeadDim, bool kDimMajor, int kBits>
int launch_side(const EncodeParams& p, CUstream_st* stream) {
    // Few tokens, as in a step of decoding, are often of as many groups.
    const int32_t window = p.n_tokens <= 1024 ? 1 : static_cast<int32_t>(kGroupTokens);
    const int64_t units = int64_t{(p.n_tokens + window - 1) / window} * p.kv_heads;
    const int32_t staging = staging_bytes(p.element, kHeadDim);
    const auto shared = kEncodePairs * (EncodePair<kHeadDim>::kCodeBytes +
                                        2 * static_cast<uint32_t>(staging));
    const auto kernel = encode_kernel<kHeadDim, kDimMajor, kBits>;
    if (shared > 48 * 1024) {
        const cudaError_t error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
        if (error != cudaSuccess) return static_cast<int>(error);
    }
    kernel<<<static_cast<uint32_t>((units + kEncodePairs - 1) / kEncodePairs), kEncodeThreads,
             shared, stream>>>(p, window, staging);
    return static_cast<int>(cudaGetLastError());
}

template <int kHeadDim, bool kDimMajor, int kBits = codec::hot::kMinBits>
int launch_width(const EncodeParams& p, int32_t bits, CUstream_st* stream) {
    if constexpr (kBits < codec::hot::kMaxBits)
        if (bits != kBits) return launch_width<kHeadDim, kDimMajor, kBits + 1>(p, bits, stream);
    return launch_side<kHeadDim, kDimMajor, kBits>(p, stream);
}

template <int kHeadDim>
int launch_encode(const EncodeParams& p, CUstream_st* stream) {
    if (p.k.rows != nullptr)
        if (const int error = launch_width<kHeadDim, true>(p, p.k.bits, stream); error != 0)
            return error;
    return p.v.rows == nullptr ? 0 : launch_width<kHeadDim, false>(p, p.v.bits, stream);
}

}  // namespace quire::kernels::cuda
