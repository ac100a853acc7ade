// The kernels of encode.h, one for each side, width and kind of rows: with all widths in one,
// registers spill.
//
// Two warps take 16 tokens of one KV head: four threads code a row, then all 64 put the codes into
// planes. A block has four such pairs. A pair has those runs of tokens that begin in its window of
// the new tokens, and goes through some of the KV heads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/codec/pack_side.cuh"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/rotate_rows.cuh"
#include "kernels/cuda/codec/row_codes.cuh"
#include "kernels/cuda/codec/rows_in.cuh"
#include "kernels/cuda/codec/runs.cuh"
#include "kernels/cuda/codec/scale_search.cuh"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

inline constexpr uint32_t kEncodePairs = 4;
inline constexpr uint32_t kEncodeThreads = kEncodePairs * kPairThreads;

// How the host cuts the work. Pairs are numbered through shares of the KV heads, then through
// windows of tokens.
struct EncodeCut {
    int32_t window_tokens;  // at most 16
    int32_t share_heads;    // KV heads of a pair
    int32_t shares;         // times share_heads is at least kv_heads
    int32_t log_groups;     // 2^log_groups groups are a page
    int32_t staging_bytes;  // of a warp, for one row each of its eight tokens
};

// A pair's place in shared memory. Rows and codes have two places, used in turn: rows of the next
// head come in while this one's are coded, and codes are written while others are still read.
template <int kHeadDim>
struct PairMemory {
    static constexpr uint32_t kCodeBytes = kGroupTokens * (kHeadDim + 16);
    static constexpr uint32_t bytes(int32_t staging_bytes) {
        return 2 * kCodeBytes + 4 * static_cast<uint32_t>(staging_bytes);
    }
    std::byte* begin;
    int32_t staging_bytes;

    __device__ __forceinline__ uint8_t* codes(uint32_t turn) const {
        return reinterpret_cast<uint8_t*>(begin) + turn * kCodeBytes;
    }
    __device__ __forceinline__ std::byte* staging(uint32_t turn) const {
        const uint32_t half = threadIdx.x / 32 % 2;
        return begin + 2 * kCodeBytes + (2 * half + turn) * static_cast<uint32_t>(staging_bytes);
    }
};

template <int kHeadDim, bool kDimMajor, int kBits, RowKind kKind>
struct EncodePair {
    const EncodeParams& p;
    const EncodeRows& rows;
    const EncodeCut& cut;
    PairMemory<kHeadDim> memory;
    const int32_t* token_rows;
    ScaleTables tables;

    // Rotated rows to codes in shared memory and scales in the page.
    // `top`: the largest magnitude of the thread's numbers.
    __device__ __forceinline__ void code_rows(QuadRow<kHeadDim>& row, float top, const Run& run,
                                              uint8_t* codes, std::byte* scales) const {
        const uint32_t lane = lane_of_warp(), token = threadIdx.x / 32 % 2 * 8 + lane / 4;
        const bool written = (run.written >> token & 1) != 0;
        const float largest = quad_max_or_nan(top);
        const bool finite = __float_as_int(largest) < 0x7f800000;
        const bool zeros = !finite || largest <= codec::hot::zero_below(kBits);
        const int u = best_scale<kBits>(row, tables, largest, zeros || !written);
        const GroupCodes<kHeadDim, kDimMajor> group = {codes, run.written};
        make_codes<kBits>(row, largest, tables.inverse_scale<kBits>(u), tables.scale<kBits>(u),
                          [&](int v, int half, int32_t a, int32_t b) {
                              group.put(token, v, half, a, b);
                          });
        if (zeros) group.clear(token);
        if (lane % 4 != 0 || !written) return;
        scales[token] = static_cast<std::byte>(zeros ? 0 : u);
        if (!finite && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
    }

    __device__ __forceinline__ void code_group(const Run& run, int32_t head, uint32_t turn) const {
        const codec::hot::Shape shape = {p.k.bits, p.v.bits, kHeadDim,
                                         static_cast<uint32_t>(p.block_tokens)};
        const uint32_t index = static_cast<uint32_t>(run.group) & ((1u << cut.log_groups) - 1);
        std::byte* page =
            p.pages + (run.group >> cut.log_groups) * p.block_stride + head * p.head_stride;
        QuadRow<kHeadDim> row;
        const float* mean =
            rows.mean == nullptr ? nullptr : rows.mean + int64_t{head} * kHeadDim;
        const float top = read_rotated<kKind>(p.element, mean, memory.staging(turn), &row);
        code_rows(row, top, run, memory.codes(turn),
                  page + index * kGroupTokens +
                      (kDimMajor ? codec::hot::k_scales_offset(shape)
                                 : codec::hot::v_scales_offset(shape)));
        asm volatile("bar.sync %0, 64;" : : "r"(1 + threadIdx.x / kPairThreads) : "memory");
        pack_side<kHeadDim, kDimMajor, kBits>(
            GroupCodes<kHeadDim, kDimMajor>{memory.codes(turn), run.written},
            threadIdx.x % kPairThreads, shape, index,
            page + (kDimMajor ? codec::hot::k_offset(shape) : codec::hot::v_offset(shape)));
    }

    __device__ __forceinline__ void code_heads(const Run& run, int32_t first, int32_t last) const {
        const uint32_t half = threadIdx.x / 32 % 2;
        const int32_t* row_of = token_rows + 8 * half;
        const uint32_t written = run.written >> (8 * half) & 0xff;
        fetch_rows<kKind, kHeadDim>(p.element, rows, first, row_of, written, memory.staging(0));
        uint32_t turn = 0;
#pragma unroll 1
        for (int32_t head = first; head < last; ++head, turn ^= 1) {
            wait_for_rows();
            if (head + 1 < last)
                fetch_rows<kKind, kHeadDim>(p.element, rows, head + 1, row_of, written,
                                     memory.staging(turn ^ 1));
            code_group(run, head, turn);
        }
        // Of two turns that are alike, the other warp may still read the first one's codes.
        asm volatile("bar.sync %0, 64;" : : "r"(1 + threadIdx.x / kPairThreads) : "memory");
    }
};

template <int kHeadDim, bool kDimMajor, int kBits, RowKind kKind>
__global__ void __launch_bounds__(kEncodeThreads, kHeadDim <= 128 ? 2 : 1)
    encode_kernel(const EncodeParams p, const EncodeCut cut) {
    extern __shared__ __align__(16) std::byte shared[];
    __shared__ int32_t token_rows[kEncodePairs * 2][kGroupTokens];
    const uint32_t pair = threadIdx.x / kPairThreads;
    const uint32_t unit = blockIdx.x * kEncodePairs + pair;
    const uint32_t window = unit / static_cast<uint32_t>(cut.shares);
    const auto share =
        static_cast<int32_t>(unit - window * static_cast<uint32_t>(cut.shares));
    // Of a pair that is one too many, nothing begins before the last token.
    const int64_t token = int64_t{window} * cut.window_tokens;
    if (token >= p.n_tokens) return;
    const EncodePair<kHeadDim, kDimMajor, kBits, kKind> work = {
        p,
        kDimMajor ? p.k : p.v,
        cut,
        {shared + pair * PairMemory<kHeadDim>::bytes(cut.staging_bytes), cut.staging_bytes},
        token_rows[threadIdx.x / 32],
        ScaleTables::load()};
    const int32_t first = share * cut.share_heads;
    const int32_t last = min(first + cut.share_heads, p.kv_heads);
    const RunFinder finder(p.slots, p.n_tokens, p.n_blocks << cut.log_groups,
                           static_cast<int32_t>(token), cut.window_tokens);
    for (uint32_t starts = finder.starts; starts != 0; starts &= starts - 1)
        work.code_heads(finder.run_at(__ffs(static_cast<int>(starts)) - 1,
                                      token_rows[threadIdx.x / 32]),
                        first, last);
}

template <int kHeadDim>
EncodeCut cut_work(const EncodeParams& p) {
    EncodeCut cut{};
    // Few tokens, as in a step of decoding, are often of as many groups.
    cut.window_tokens = p.n_tokens <= 1024 ? 1 : static_cast<int32_t>(kGroupTokens);
    // Enough pairs for every multiprocessor of the largest GPUs, and a few turns each.
    const int64_t windows = (p.n_tokens + cut.window_tokens - 1) / cut.window_tokens;
    cut.share_heads = 1;
    while (cut.share_heads < p.kv_heads && windows * p.kv_heads / (2 * cut.share_heads) >= 8192)
        cut.share_heads *= 2;
    cut.shares = (p.kv_heads + cut.share_heads - 1) / cut.share_heads;
    while (static_cast<int32_t>(kGroupTokens) << cut.log_groups < p.block_tokens) ++cut.log_groups;
    cut.staging_bytes = staging_bytes(p.element, kHeadDim);
    return cut;
}

template <int kHeadDim, bool kDimMajor, int kBits>
int launch_side(const EncodeParams& p, CUstream_st* stream) {
    const EncodeCut cut = cut_work<kHeadDim>(p);
    const int64_t windows = (p.n_tokens + cut.window_tokens - 1) / cut.window_tokens;
    const auto blocks =
        static_cast<uint32_t>((windows * cut.shares + kEncodePairs - 1) / kEncodePairs);
    const uint32_t shared = kEncodePairs * PairMemory<kHeadDim>::bytes(cut.staging_bytes);
    const bool plain = are_plain_bf16(p.element, kDimMajor ? p.k : p.v);
    const auto kernel = plain ? encode_kernel<kHeadDim, kDimMajor, kBits, RowKind::plain_bf16>
                              : encode_kernel<kHeadDim, kDimMajor, kBits, RowKind::any>;
    if (shared > 48 * 1024) {
        const cudaError_t error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
        if (error != cudaSuccess) return static_cast<int>(error);
    }
    kernel<<<blocks, kEncodeThreads, shared, stream>>>(p, cut);
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
