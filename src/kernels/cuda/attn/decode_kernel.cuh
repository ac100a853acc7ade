// The kernels of decode.h. A block of eight warps is a worker of sched/work_list.h; a tile is 256
// keys, of which every warp takes 32. Warps go through their keys alone and meet at the end of a
// segment.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/attn/warp_state.cuh"
#include "kernels/cuda/attn/workspace.h"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/sched/work_list.h"

namespace quire::kernels::cuda {

// Shared memory of a block, beside the tables of levels.
template <int kHeadDim>
struct DecodeShared {
    // Query rows, and later the result: [row][dimension].
    float rows[kDecodeRowsMax][kHeadDim];
    uint2 q[kHeadDim / 16][32];  // query rows as operands of the products
    float out[kDecodeWarps][kDecodeRowsMax][kHeadDim];
    float max[kDecodeWarps][kDecodeRowsMax];
    float sum[kDecodeWarps][kDecodeRowsMax];
    float row_max[kDecodeRowsMax];
    float row_sum[kDecodeRowsMax];
    int32_t is_last;
};

template <int kHeadDim>
constexpr size_t decode_shared_bytes(int k_bits, int v_bits) {
    const int v_words = v_bits == k_bits ? 0 : table_words(v_bits);
    return sizeof(DecodeShared<kHeadDim>) +
           sizeof(uint32_t) * static_cast<size_t>(table_words(k_bits) + v_words);
}

template <int kHeadDim, class T>
class DecodeBlock {
 public:
    __device__ DecodeBlock(const DecodeParams& p, DecodeShared<kHeadDim>* shared, uint32_t* tables)
        : p_(p),
          work_(divide_workspace(p)),
          s_(*shared),
          shape_{p.k_bits, p.v_bits, kHeadDim, static_cast<uint32_t>(p.block_tokens)},
          group_(p.n_heads / p.kv_heads) {
        uint32_t* v_table = p.v_bits == p.k_bits ? tables : tables + table_words(p.k_bits);
        with_bits(p.k_bits, [&]<int kBits>() { fill_table<kBits>(tables); });
        if (v_table != tables)
            with_bits(p.v_bits, [&]<int kBits>() { fill_table<kBits>(v_table); });
        k_table_ = tables + threadIdx.x % 32;
        v_table_ = v_table + threadIdx.x % 32;
        warp_.g = threadIdx.x % 32 / 4;
        warp_.t = threadIdx.x % 4;
        warp_.q = &s_.q[0][threadIdx.x % 32];
        __syncthreads();
    }

    __device__ void run() {
        const WorkList list = {work_.first_tiles, p_.n_requests, p_.kv_heads,
                               static_cast<int32_t>(gridDim.x)};
        SegmentWalker walker(list, static_cast<int32_t>(blockIdx.x));
        Segment segment;
        while (walker.next(&segment)) {
            load_queries(segment);
            attend(segment);
            join_warps();
            if (segment.whole)
                write_rows(segment);
            else
                leave_partial(list, segment);
        }
    }

 private:
    __device__ int32_t rows() const { return p_.n_queries * group_; }

    // H x of each row, in place; by all threads.
    __device__ void rotate_rows() {
        constexpr uint32_t kBlock = codec::hot::hadamard_block(kHeadDim);
        for (uint32_t h = 1; h < kBlock; h *= 2) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < kDecodeRowsMax * kHeadDim / 2; i += kDecodeThreads) {
                const uint32_t at = i / h * 2 * h + i % h;
                float* x = &s_.rows[0][0] + at;
                const float a = x[0], b = x[h];
                x[0] = a + b;
                x[h] = a - b;
            }
        }
        __syncthreads();
    }

    __device__ void load_queries(const Segment& segment) {
        const float unit = p_.softcap > 0 ? p_.scale / p_.softcap : p_.scale * kLog2e;
        const float norm = unit * codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
        __syncthreads();
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kDecodeRowsMax * kHeadDim;
             i += kDecodeThreads) {
            const int32_t row = i / kHeadDim, d = i % kHeadDim;
            s_.rows[row][d] = row < rows()
                                  ? norm * static_cast<float>(static_cast<const T*>(
                                               p_.q)[query_offset(segment, row, p_.q_token_stride,
                                                                  p_.q_head_stride) +
                                                     d])
                                  : 0.0f;
        }
        rotate_rows();
        const float* row = s_.rows[warp_.g];
        for (int step = static_cast<int>(threadIdx.x) / 32; step < WarpState<kHeadDim>::kSteps;
             step += kDecodeWarps) {
            const float* x = row + 16 * step + 2 * warp_.t;
            s_.q[step][threadIdx.x % 32] = {f16_pair(x[0], x[1]), f16_pair(x[8], x[9])};
        }
        __syncthreads();
        warp_.clear();
    }

    __device__ int64_t query_offset(const Segment& segment, int32_t row, int64_t token_stride,
                                    int64_t head_stride) const {
        const int64_t token = int64_t{segment.request} * p_.n_queries + row / group_;
        return token * token_stride + (segment.head * group_ + row % group_) * head_stride;
    }

    __device__ void attend(const Segment& segment) {
        const KeySpan keys = keys_of(p_, segment.request);
        const int32_t first = first_tile(keys, kTileTokens) + segment.begin;
        const int32_t last = first_tile(keys, kTileTokens) + segment.end;
        const auto warp = static_cast<int32_t>(threadIdx.x / 32);
        for (int32_t tile = first; tile < last; ++tile) {
            const int32_t token = tile * kTileTokens + warp * kChunkTokens;
            if (token >= keys.end || token + kChunkTokens <= keys.begin) continue;
            attend_chunk(segment, keys, token);
        }
    }

    // A group's page; a group behind the last key reads the last one's, and weighs nothing.
    __device__ const std::byte* page_of(const Segment& segment, int32_t group) const {
        const int32_t block = group * codec::hot::kLanes / p_.block_tokens;
        const int64_t id = p_.blocks[segment.request * p_.table_stride + block];
        return p_.pages + id * p_.block_stride + segment.head * p_.head_stride;
    }

    __device__ void attend_chunk(const Segment& segment, const KeySpan& keys, int32_t token) {
        constexpr int32_t kGroup = codec::hot::kLanes;
        const int32_t last_group = (keys.end - 1) / kGroup, groups = p_.block_tokens / kGroup;
        const auto group_at = [&](uint32_t i) {
            return min(token / kGroup + static_cast<int32_t>(i), last_group);
        };
        const int32_t key_group = group_at(warp_.g / 4), value_group = group_at(warp_.t / 2);
        const ChunkPages pages = {
            page_of(segment, key_group), static_cast<uint32_t>(key_group % groups),
            page_of(segment, value_group), static_cast<uint32_t>(value_group % groups)};
        const uint32_t in_page = pages.key_group * kGroup + warp_.g % 4 * 4;
        const uint32_t k_units =
            load_word(pages.key_page + codec::hot::k_scales_offset(shape_) + in_page);
        const uint32_t v_units =
            load_word(pages.key_page + codec::hot::v_scales_offset(shape_) + in_page);
        float scores[2][4] = {};
        with_bits(p_.k_bits, [&]<int kBits>() {
            warp_.template add_scores<kBits>(shape_, pages, k_table_, scores);
        });
        finish_scores(keys, token, k_units, scores);
        warp_.weigh(scores);
        uint32_t weights[2][2];
        pack_weights(v_units, scores, weights);
        with_bits(p_.v_bits, [&]<int kBits>() {
            warp_.template add_values<kBits>(shape_, pages, v_table_, weights);
        });
    }

    // 2^(unit / 16 - octaves); a row of zeros has unit 0, and codes of level 0 or any weight.
    __device__ float scale_of(int bits, uint32_t unit) const {
        return unit == 0 ? 0.0f
                         : exp2f(static_cast<float>(unit) * 0.0625f -
                                 static_cast<float>(codec::hot::octaves(bits)));
    }

    // Score i of a lane's tile: row g or g + 8 (i / 2), query row 2t + i % 2.
    __device__ void finish_scores(const KeySpan& keys, int32_t token, uint32_t k_units,
                                  float (&s)[2][4]) const {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int of_four = 2 * tile + i / 2;
                const int32_t key =
                    token + static_cast<int32_t>(WarpMap::first_token(warp_.g)) + of_four;
                float x = s[tile][i] * scale_of(p_.k_bits, k_units >> (8 * of_four) & 0xff);
                if (p_.softcap > 0) x = tanhf(x) * p_.softcap * kLog2e;
                const int32_t row = static_cast<int32_t>(2 * warp_.t) + i % 2;
                const int32_t end = keys.end - p_.n_queries + 1 + row / group_;
                const bool seen = key < end && (p_.window == 0 || key >= end - p_.window);
                s[tile][i] = seen && row < rows() ? x : kNoScore;
            }
        }
    }

    // Weights times scales of values, in units that f16 holds, as the products' second operand.
    __device__ void pack_weights(uint32_t v_units, const float (&weights)[2][4],
                                 uint32_t (&packed)[2][2]) {
        if (warp_.v_unit < 0) {
            uint32_t top = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) top = max(top, v_units >> (8 * i) & 0xff);
            warp_.v_unit = static_cast<int32_t>(__reduce_max_sync(0xffffffff, top));
        }
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const uint32_t unit = v_units >> (8 * (2 * tile + row)) & 0xff;
                const float scale =
                    unit == 0
                        ? 0.0f
                        : exp2f(static_cast<float>(static_cast<int32_t>(unit) - warp_.v_unit) *
                                0.0625f);
                packed[tile][row] = transpose_8x8(
                    f16_pair(weights[tile][2 * row] * scale, weights[tile][2 * row + 1] * scale));
            }
        }
    }

    // Sums of all warps in units of the largest score of all, into rows, row_max and row_sum.
    __device__ void join_warps() {
        const uint32_t warp = threadIdx.x / 32;
        const float unit = warp_.v_unit < 0 ? 0.0f : scale_of(p_.v_bits, warp_.v_unit);
#pragma unroll
        for (int column = 0; column < 2; ++column) {
            const uint32_t row = 2 * warp_.t + column;
            float sum = warp_.sum[column];
#pragma unroll
            for (int distance = 4; distance < 32; distance *= 2)
                sum += __shfl_xor_sync(0xffffffff, sum, distance);
            if (warp_.g == 0) {
                s_.max[warp][row] = warp_.max[column];
                s_.sum[warp][row] = sum;
            }
#pragma unroll
            for (int tile = 0; tile < 4 * WarpState<kHeadDim>::kPairs; ++tile) {
                const uint32_t d = WarpMap::value_dim(warp_.g, tile / 4, tile % 4);
                if (kHeadDim % 64 != 0 && d >= kHeadDim) continue;
                s_.out[warp][row][d] = warp_.out[tile][column] * unit;
                s_.out[warp][row][d + 16] = warp_.out[tile][column + 2] * unit;
            }
        }
        __syncthreads();
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kDecodeRowsMax * kHeadDim;
             i += kDecodeThreads) {
            const int32_t row = i / kHeadDim, d = i % kHeadDim;
            float top = kNoScore, sum = 0, out = 0;
            for (int w = 0; w < kDecodeWarps; ++w) top = fmaxf(top, s_.max[w][row]);
            const float base = top == kNoScore ? 0.0f : top;
            for (int w = 0; w < kDecodeWarps; ++w) {
                const float keep = exp2f(s_.max[w][row] - base);
                sum += s_.sum[w][row] * keep;
                out += s_.out[w][row][d] * keep;
            }
            s_.rows[row][d] = out;
            if (d == 0) {
                s_.row_max[row] = top;
                s_.row_sum[row] = sum;
            }
        }
        __syncthreads();
    }

    // From rows, row_max and row_sum: back from the codec's space, and out.
    __device__ void write_rows(const Segment& segment) {
        const float norm = codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
        rotate_rows();
        const float* mean =
            p_.v_mean == nullptr ? nullptr : p_.v_mean + int64_t{segment.head} * kHeadDim;
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < rows() * kHeadDim;
             i += kDecodeThreads) {
            const int32_t row = i / kHeadDim, d = i % kHeadDim;
            const float sum = s_.row_sum[row];
            float x = sum > 0 ? s_.rows[row][d] * norm / sum : 0.0f;
            if (mean != nullptr && sum > 0) x += mean[d];
            static_cast<T*>(
                p_.out)[query_offset(segment, row, p_.out_token_stride, p_.out_head_stride) + d] =
                static_cast<T>(x);
            if (d == 0 && p_.lse != nullptr)
                p_.lse[query_offset(segment, row, p_.n_heads, 1)] =
                    sum > 0 ? (s_.row_max[row] + log2f(sum)) / kLog2e : kNoScore;
        }
    }

    __device__ float* partial_at(int32_t slot) const {
        return work_.partials + slot * partial_floats(kHeadDim);
    }

    __device__ void leave_partial(const WorkList& list, const Segment& segment) {
        float* to = partial_at(segment.slot);
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kDecodeRowsMax * kHeadDim;
             i += kDecodeThreads)
            to[i] = (&s_.rows[0][0])[i];
        if (threadIdx.x < kDecodeRowsMax) {
            to[kDecodeRowsMax * kHeadDim + threadIdx.x] = s_.row_max[threadIdx.x];
            to[kDecodeRowsMax * (kHeadDim + 1) + threadIdx.x] = s_.row_sum[threadIdx.x];
        }
        __threadfence();
        __syncthreads();
        const int32_t waits_for = list.workers_of(segment.request, segment.head);
        if (threadIdx.x == 0) {
            int32_t* arrived = work_.arrived + segment.request * p_.kv_heads + segment.head;
            s_.is_last = atomicAdd(arrived, 1) + 1 == waits_for;
        }
        __syncthreads();
        if (!s_.is_last) return;
        __threadfence();
        merge_partials(list, segment, waits_for);
        write_rows(segment);
    }

    // In order of workers, so that it does not matter who is last.
    __device__ void merge_partials(const WorkList& list, const Segment& segment, int32_t n) {
        const int64_t tiles =
            list.first_tiles[segment.request + 1] - list.first_tiles[segment.request];
        const int64_t first =
            int64_t{list.first_tiles[segment.request]} * list.n_heads + segment.head * tiles;
        const int32_t worker = list.worker_of(first);
        const auto slot = [&](int32_t i) { return list.slot_of(worker + i, i + 1 < n); };
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kDecodeRowsMax * kHeadDim;
             i += kDecodeThreads) {
            const int32_t row = i / kHeadDim;
            float top = kNoScore, sum = 0, out = 0;
            for (int32_t w = 0; w < n; ++w)
                top = fmaxf(top, partial_at(slot(w))[kDecodeRowsMax * kHeadDim + row]);
            const float base = top == kNoScore ? 0.0f : top;
            for (int32_t w = 0; w < n; ++w) {
                const float* from = partial_at(slot(w));
                const float keep = exp2f(from[kDecodeRowsMax * kHeadDim + row] - base);
                sum += from[kDecodeRowsMax * (kHeadDim + 1) + row] * keep;
                out += from[i] * keep;
            }
            s_.rows[row][i % kHeadDim] = out;
            if (i % kHeadDim == 0) {
                s_.row_max[row] = top;
                s_.row_sum[row] = sum;
            }
        }
        __syncthreads();
    }

    const DecodeParams& p_;
    const DecodeWorkspace work_;
    DecodeShared<kHeadDim>& s_;
    const codec::hot::Shape shape_;
    const int32_t group_;  // heads of a KV head
    const uint32_t* k_table_;
    const uint32_t* v_table_;
    WarpState<kHeadDim> warp_;
};

template <int kHeadDim, class T>
__global__ void __launch_bounds__(kDecodeThreads, 1) decode_kernel(const DecodeParams p) {
    extern __shared__ __align__(16) std::byte memory[];
    auto* shared = reinterpret_cast<DecodeShared<kHeadDim>*>(memory);
    auto* tables = reinterpret_cast<uint32_t*>(memory + sizeof(DecodeShared<kHeadDim>));
    DecodeBlock<kHeadDim, T>(p, shared, tables).run();
}

template <int kHeadDim, class T>
int launch_decode_of(const DecodeParams& p, int32_t workers, CUstream_st* stream) {
    const size_t shared = decode_shared_bytes<kHeadDim>(p.k_bits, p.v_bits);
    const cudaError_t error =
        cudaFuncSetAttribute(decode_kernel<kHeadDim, T>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (error != cudaSuccess) return static_cast<int>(error);
    launch_prepare(p, stream);
    decode_kernel<kHeadDim, T>
        <<<static_cast<uint32_t>(workers), kDecodeThreads, shared, stream>>>(p);
    return static_cast<int>(cudaGetLastError());
}

template <int kHeadDim>
int launch_decode(const DecodeParams& p, int32_t workers, CUstream_st* stream) {
    switch (p.element) {
        case Numbers::f32:
            return launch_decode_of<kHeadDim, float>(p, workers, stream);
        case Numbers::f16:
            return launch_decode_of<kHeadDim, __half>(p, workers, stream);
        case Numbers::bf16:
            return launch_decode_of<kHeadDim, __nv_bfloat16>(p, workers, stream);
    }
    return static_cast<int>(cudaErrorInvalidValue);
}

template <int kHeadDim>
int32_t decode_blocks_each() {
    const size_t shared = decode_shared_bytes<kHeadDim>(4, 3);
    const cudaError_t error =
        cudaFuncSetAttribute(decode_kernel<kHeadDim, __nv_bfloat16>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (error != cudaSuccess) return -static_cast<int32_t>(error);
    int blocks = 0;
    const cudaError_t asked = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, decode_kernel<kHeadDim, __nv_bfloat16>, kDecodeThreads, shared);
    return asked == cudaSuccess ? blocks : -static_cast<int32_t>(asked);
}

}  // namespace quire::kernels::cuda
