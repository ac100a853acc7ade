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
#include "kernels/cuda/codec/work_cut.h"
#include "kernels/cuda/encode.h"
#include "kernels/cuda/launch_kernel.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kEncodePairs = 4;
inline constexpr uint32_t kEncodeThreads = kEncodePairs * kPairThreads;
// Blocks of a multiprocessor: as many as registers allow.
constexpr int blocks_of(int head_dim, RowKind kind) {
    if (head_dim > 128) return 1;
    return kind == RowKind::plain_bf16 && head_dim % 64 == 0 ? 3 : 2;
}

struct EncodeCut : WorkCut {
    int64_t codes_at;  // of the side, in a page
    int64_t scales_at;
};

// A warp has a place for its rows, as they come and then as they are transformed; a pair has one
// for codes.
template <int kHeadDim>
constexpr uint32_t row_bytes_of_warp(Numbers element) {
    const auto staged = static_cast<uint32_t>(staging_bytes(element, kHeadDim));
    return staged > StoredRow<kHeadDim>::kWarpBytes ? staged : StoredRow<kHeadDim>::kWarpBytes;
}
template <int kHeadDim>
inline constexpr uint32_t kCodeBytes = kGroupTokens * (kHeadDim + 16);

template <int kHeadDim, bool kDimMajor, int kBits, RowKind kKind>
struct EncodePair {
    const EncodeParams& p;
    const EncodeRows& rows;
    const EncodeCut& cut;
    uint8_t* codes;
    std::byte* memory;  // of the warp
    uint32_t half;      // which of the two warps
    ScaleTables tables;

    __device__ __forceinline__ void sync() const {
        meet(1 + static_cast<int>(threadIdx.x / kPairThreads), kPairThreads);
    }
    // The token of the quad's row, in its group.
    __device__ __forceinline__ uint32_t own_token() const { return 8 * half + lane_of_warp() / 4; }

    // The warp's rows of a head to codes in shared memory and scales in the page.
    __device__ __forceinline__ void code_rows(const Run& run, int32_t head,
                                              std::byte* scales) const {
        const uint32_t token = own_token();
        const bool written = (run.written >> token & 1) != 0;
        QuadRow<kHeadDim> numbers;
        const float top = read_rotated<kKind>(
            p.element, rows.mean == nullptr ? nullptr : rows.mean + int64_t{head} * kHeadDim,
            memory, &numbers);
        __syncwarp();
        const StoredRow<kHeadDim> row(memory, numbers);
        const float largest = quad_max_or_nan(top);
        const bool finite = __float_as_int(largest) < 0x7f800000;
        const bool zeros = !finite || largest <= codec::hot::zero_below(kBits);
        const int u = best_scale<kBits>(row, tables, largest, zeros || !written);
        const GroupCodes<kHeadDim, kDimMajor> group = {codes, run.written};
        make_codes<kBits>(
            row, largest, tables.inverse_scale<kBits>(u),
            [&](int v, int pair, int32_t a, int32_t b) { group.put(token, v, pair, a, b); });
        if (zeros) group.clear(token);
        if (lane_of_warp() % 4 != 0 || !written) return;
        scales[token] = static_cast<std::byte>(zeros ? 0 : u);
        if (!finite && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
    }

    // tokens_of_run[t]: which of the new tokens is token t of the group.
    __device__ __forceinline__ void code_heads(const Run& run, const int32_t* tokens_of_run,
                                               int32_t first, int32_t last) const {
        const int64_t number_bytes = p.element == Numbers::f32 ? 4 : 2;
        const bool written = (run.written >> own_token() & 1) != 0;
        const std::byte* row =
            static_cast<const std::byte*>(rows.rows) +
            (written ? tokens_of_run[own_token()] : 0) * (rows.token_stride * number_bytes) +
            first * (rows.head_stride * number_bytes);
        const uint32_t index = static_cast<uint32_t>(run.group) & ((1u << cut.log_groups) - 1);
        std::byte* page =
            p.pages + (run.group >> cut.log_groups) * p.block_stride + first * p.head_stride;
        if (written) fetch_rows<kKind, kHeadDim>(p.element, row, memory);
#pragma unroll 1
        for (int32_t head = first; head < last; ++head, page += p.head_stride) {
            wait_for_rows();
            code_rows(run, head, page + cut.scales_at + index * kGroupTokens);
            __syncwarp();
            row += rows.head_stride * number_bytes;
            if (written && head + 1 < last) fetch_rows<kKind, kHeadDim>(p.element, row, memory);
            sync();
            pack_side<kHeadDim, kDimMajor, kBits>(
                GroupCodes<kHeadDim, kDimMajor>{codes, run.written}, threadIdx.x % kPairThreads,
                static_cast<uint32_t>(p.block_tokens), index, page + cut.codes_at);
            sync();
        }
    }
};

template <int kHeadDim, bool kDimMajor, int kBits, RowKind kKind>
__global__ void __launch_bounds__(kEncodeThreads, blocks_of(kHeadDim, kKind))
    encode_kernel(const EncodeParams p, const EncodeCut cut) {
    __shared__ int32_t tokens[kEncodePairs * 2][kGroupTokens];
    const uint32_t warp = threadIdx.x / 32, pair = warp / 2;
    const uint32_t unit = blockIdx.x * kEncodePairs + pair;
    const uint32_t window = unit / static_cast<uint32_t>(cut.shares);
    const auto share = static_cast<int32_t>(unit - window * static_cast<uint32_t>(cut.shares));
    // Of a pair that is one too many, nothing begins before the last token.
    const int64_t token = int64_t{window} * cut.window_tokens;
    if (token >= p.n_tokens) return;
    const EncodeRows& rows = kDimMajor ? p.k : p.v;
    const EncodePair<kHeadDim, kDimMajor, kBits, kKind> work = {
        p,
        rows,
        cut,
        reinterpret_cast<uint8_t*>(dynamic_shared()) + pair * kCodeBytes<kHeadDim>,
        dynamic_shared() + kEncodePairs * kCodeBytes<kHeadDim> +
            warp * row_bytes_of_warp<kHeadDim>(p.element),
        warp % 2,
        ScaleTables::load()};
    const int32_t first = share * cut.share_heads;
    const int32_t last = min(first + cut.share_heads, p.kv_heads);
    const RunFinder finder(p.slots, p.n_tokens, p.n_blocks << cut.log_groups,
                           static_cast<int32_t>(token), cut.window_tokens);
    for (uint32_t starts = finder.starts; starts != 0; starts &= starts - 1)
        work.code_heads(finder.run_at(__ffs(static_cast<int>(starts)) - 1, tokens[warp]),
                        tokens[warp], first, last);
}

template <int kHeadDim, bool kDimMajor, int kBits>
int launch_side(const EncodeParams& p, CUstream_st* stream) {
    const codec::hot::Shape shape = {p.k.bits, p.v.bits, kHeadDim,
                                     static_cast<uint32_t>(p.block_tokens)};
    const EncodeCut cut = {
        cut_work(p.n_tokens, p.kv_heads, p.block_tokens),
        static_cast<int64_t>(kDimMajor ? codec::hot::k_offset(shape) : codec::hot::v_offset(shape)),
        static_cast<int64_t>(kDimMajor ? codec::hot::k_scales_offset(shape)
                                       : codec::hot::v_scales_offset(shape))};
    const int64_t pairs = int64_t{cut.windows} * cut.shares;
    const auto blocks = static_cast<uint32_t>((pairs + kEncodePairs - 1) / kEncodePairs);
    const uint32_t shared =
        kEncodePairs * (kCodeBytes<kHeadDim> + 2 * row_bytes_of_warp<kHeadDim>(p.element));
    const bool plain = are_plain_bf16(p.element, kDimMajor ? p.k : p.v);
    const auto kernel = plain ? encode_kernel<kHeadDim, kDimMajor, kBits, RowKind::plain_bf16>
                              : encode_kernel<kHeadDim, kDimMajor, kBits, RowKind::any>;
    if (shared > 48 * 1024) {
        const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(shared));
        if (error != cudaSuccess) return static_cast<int>(error);
    }
    return launch_kernel(kernel, blocks, kEncodeThreads, shared, stream, p, cut);
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
