// The kernel of encode.h. A block of 256 threads takes a group of 16 tokens of one KV head and one
// side; half a warp codes a row, by the functions that the CPU's versions are made of.
//
// Grid: x a token, of which the first one of each run of tokens of one group works; y a KV head; z
// K and V.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "codec/hot/generic/quantise.h"
#include "codec/hot/generic/rotate.h"
#include "kernels/cuda/codec/half_warp.cuh"
#include "kernels/cuda/codec/pack_side.cuh"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

inline constexpr int kEncodeThreads = 256;
inline constexpr int kGroupTokens = 16;

// Which tokens this block codes.
struct Run {
    int64_t group = -1;    // of all pages
    uint32_t written = 0;  // bit t: token t of the group
    int32_t row[kGroupTokens];
};

__device__ inline int64_t group_at(const EncodeParams& p, int32_t token) {
    const int64_t slot = p.slots[token];
    return slot < 0 ? -1 : slot / kGroupTokens;
}

// One thread's work. False: another block's, or nobody's.
__device__ inline bool find_run(const EncodeParams& p, int32_t first, Run* run) {
    run->group = group_at(p, first);
    run->written = 0;
    if (run->group < 0 || run->group >= p.n_blocks * (p.block_tokens / kGroupTokens)) return false;
    if (first > 0 && group_at(p, first - 1) == run->group) return false;
    for (int32_t i = first; i < p.n_tokens && group_at(p, i) == run->group; ++i) {
        const auto at = static_cast<uint32_t>(p.slots[i] % kGroupTokens);
        run->written |= 1u << at;
        run->row[at] = i;
    }
    return true;
}

template <int kHeadDim, bool kDimMajor, class T>
struct EncodeBlock {
    // Rows of the two halves of a warp begin sixteen banks apart.
    static constexpr int kRowFloats = kHeadDim % 32 == 0 ? kHeadDim + 16 : kHeadDim;
    struct Shared {
        Run run;
        bool works;
        alignas(16) float x[kGroupTokens][kRowFloats];
        alignas(16) uint8_t codes[kGroupTokens][kHeadDim];
        uint8_t scales[kGroupTokens];
    };

    template <int kBits>
    static __device__ void code_row(const EncodeParams& p, const EncodeRows& rows, int32_t head,
                                    uint32_t token, Shared* s) {
        const int64_t from = s->run.row[token] * rows.token_stride + head * rows.head_stride;
        float* x = s->x[token];
        const float* mean = rows.mean == nullptr ? nullptr : rows.mean + int64_t{head} * kHeadDim;
#pragma unroll
        for (int i = 0; i < kHeadDim; i += kGroupTokens) {
            const float number =
                static_cast<float>(static_cast<const T*>(rows.rows)[from + i + HalfWarp::lane()]);
            HalfWarp::store(
                x + i, mean == nullptr ? number : HalfWarp::sub(number, HalfWarp::load(mean + i)));
        }
        codec::hot::generic::rotate_blocks<HalfWarp, codec::hot::hadamard_block(kHeadDim)>(
            x, kHeadDim);
        const auto coded =
            codec::hot::generic::quantise_row<HalfWarp, kBits>(x, kHeadDim, s->codes[token]);
        if (HalfWarp::lane() != 0) return;
        s->scales[token] = coded.scale;
        if (!coded.finite && p.not_finite != nullptr) atomicAdd(p.not_finite, 1u);
    }

    template <int kBits>
    static __device__ void run(const EncodeParams& p, const EncodeRows& rows, int32_t head,
                               Shared* s) {
        const uint32_t token = threadIdx.x / 16;
        if (s->run.written >> token & 1) code_row<kBits>(p, rows, head, token, s);
        __syncthreads();
        const codec::hot::Shape shape = {p.k.bits, p.v.bits, kHeadDim,
                                         static_cast<uint32_t>(p.block_tokens)};
        const int64_t groups = p.block_tokens / kGroupTokens;
        const auto index = static_cast<uint32_t>(s->run.group % groups);
        std::byte* page = p.pages + s->run.group / groups * p.block_stride + head * p.head_stride;
        const GroupCodes<kHeadDim> codes = {&s->codes[0][0], s->run.written};
        pack_side<kHeadDim, kDimMajor, kBits>(
            codes, shape, index,
            page + (kDimMajor ? codec::hot::k_offset(shape) : codec::hot::v_offset(shape)));
        std::byte* scales =
            page + index * kGroupTokens +
            (kDimMajor ? codec::hot::k_scales_offset(shape) : codec::hot::v_scales_offset(shape));
        if (threadIdx.x < kGroupTokens && (s->run.written >> threadIdx.x & 1))
            scales[threadIdx.x] = static_cast<std::byte>(s->scales[threadIdx.x]);
    }

    static __device__ void start(const EncodeParams& p, const EncodeRows& rows) {
        __shared__ Shared shared;
        if (threadIdx.x == 0)
            shared.works = find_run(p, static_cast<int32_t>(blockIdx.x), &shared.run);
        __syncthreads();
        if (!shared.works) return;
        with_bits(rows.bits, [&]<int kBits>() {
            run<kBits>(p, rows, static_cast<int32_t>(blockIdx.y), &shared);
        });
    }
};

template <int kHeadDim, class T>
__global__ void __launch_bounds__(kEncodeThreads) encode_kernel(const EncodeParams p) {
    if (blockIdx.z == 0) {
        if (p.k.rows != nullptr) EncodeBlock<kHeadDim, true, T>::start(p, p.k);
    } else {
        if (p.v.rows != nullptr) EncodeBlock<kHeadDim, false, T>::start(p, p.v);
    }
}

template <int kHeadDim>
int launch_encode(const EncodeParams& p, CUstream_st* stream) {
    const dim3 grid(static_cast<uint32_t>(p.n_tokens), static_cast<uint32_t>(p.kv_heads), 2);
    switch (p.element) {
        case Numbers::f32:
            encode_kernel<kHeadDim, float><<<grid, kEncodeThreads, 0, stream>>>(p);
            break;
        case Numbers::f16:
            encode_kernel<kHeadDim, __half><<<grid, kEncodeThreads, 0, stream>>>(p);
            break;
        case Numbers::bf16:
            encode_kernel<kHeadDim, __nv_bfloat16><<<grid, kEncodeThreads, 0, stream>>>(p);
            break;
    }
    return static_cast<int>(cudaGetLastError());
}

}  // namespace quire::kernels::cuda
