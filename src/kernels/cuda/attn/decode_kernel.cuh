// The kernel of decode.h. A block is a worker of sched/work_list.h. Its warps take chunks of 32
// keys in turn from a ring (feed.cuh), each for itself, and meet at the end of a segment.
//
// Shared memory: [table of levels, if any][DecodeShared][slots of the ring].
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attn/feed.cuh"
#include "kernels/cuda/attn/warp_state.cuh"
#include "kernels/cuda/attn/workspace.h"

namespace quire::kernels::cuda {

inline constexpr size_t kSharedMax = 227 * 1024;

// Sums of 128 dimensions and 8 rows leave registers for 16 warps.
template <int kHeadDim, int kTiles>
constexpr int kDecodeWarps = kHeadDim * kTiles <= 128 ? 16 : 8;

template <int kHeadDim, int kTiles>
struct DecodeShared {
    static constexpr int kWarps = kDecodeWarps<kHeadDim, kTiles>;
    static constexpr int kRows = kRowsOfTile * kTiles;
    static constexpr int kJoined = kRows * kHeadDim >= 4096 ? 1 : 4096 / (kRows * kHeadDim);
    static constexpr int kSteps = kHeadDim / 16;

    // Query rows, and later the result: [row][dimension].
    float rows[kRows][kHeadDim];
    float join[kJoined][kRows][kHeadDim];  // sums of so many warps at a time
    uint2 q[kTiles][kSteps][32];           // query rows as operands of the products
    float max[kWarps][kRows];
    float sum[kWarps][kRows];
    float row_max[kRows];
    float row_sum[kRows];
    Ring ring;
    alignas(16) std::byte walks[kWarps + 1][sizeof(ChunkWalk)];  // the last: of the whole block
    int32_t is_last;

    __device__ ChunkWalk* walk(int i) { return reinterpret_cast<ChunkWalk*>(walks[i]); }
};

template <int kHeadDim, int kTiles>
class DecodeBlock {
    using Shared = DecodeShared<kHeadDim, kTiles>;
    using Map = ChunkMap<kHeadDim>;
    using Warp = WarpState<kHeadDim, kTiles>;
    static constexpr int kWarps = Shared::kWarps, kRows = Shared::kRows;
    static constexpr int kThreads = 32 * kWarps;

 public:
    __device__ DecodeBlock(const DecodePlan& plan, Shared* shared, uint32_t slots_at)
        : plan_(plan),
          p_(plan.p),
          s_(*shared),
          group_(plan.p.n_heads / plan.p.kv_heads),
          k_table_(true, plan.p.k_bits),
          v_table_(false, plan.p.v_bits),
          feed_(plan, &shared->ring, shared->walk(threadIdx.x / 32), slots_at) {}

    __device__ __forceinline__ void run() {
        const auto warp = static_cast<int32_t>(threadIdx.x / 32);
        const int32_t worker = static_cast<int32_t>(blockIdx.x);
        if (threadIdx.x % 32 == 0) *s_.walk(warp) = ChunkWalk(list(), worker);
        if (threadIdx.x == 0) *s_.walk(kWarps) = ChunkWalk(list(), worker);
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < plan_.slots; i += kThreads) {
            s_.ring.full[i].init(32);
            s_.ring.filled[i] = 0;
        }
        fence_barriers();
        __syncthreads();
        if (list().busy() <= worker) return;
        for (RingPlace at = {warp, warp, 0}; at.slot < plan_.slots;
             at.chunk += kWarps, at.slot += kWarps)
            feed_.bring(at.chunk, at.slot, 0);
        RingPlace at = {0, 0, 0};
        at.forward(warp, plan_.slots);
        while (next_segment()) {
            const ChunkWalk& now = *s_.walk(kWarps);
            load_queries(now);
            const KeySpan keys = now.keys;
            const int32_t start = now.token, last = now.last;
            for (; at.chunk < last; at.forward(kWarps, plan_.slots)) {
                feed_.wait(at);
                const int32_t token = token_of(start, at.chunk);
                if (has_keys(keys, token)) attend(keys, token, feed_.address(at.slot));
                __syncwarp();
                feed_.bring(at.chunk + plan_.slots, at.slot, at.round + 1);
            }
            join_warps(now);
            if (now.segment.whole)
                write_rows(now);
            else
                leave_partial(now);
        }
    }

 private:
    __device__ DecodeWorkspace workspace() const { return divide_workspace(p_, plan_.passes); }
    __device__ WorkList list() const {
        return {workspace().first_tiles, p_.n_requests, p_.kv_heads * plan_.passes,
                static_cast<int32_t>(gridDim.x)};
    }

    __device__ bool next_segment() {
        __syncthreads();
        if (threadIdx.x == 0) s_.walk(kWarps)->next(plan_);
        __syncthreads();
        return s_.walk(kWarps)->more;
    }

    // H x of each row, in place: a warp takes a row, a lane the numbers at lane + 32 i.
    __device__ void rotate_rows() {
        constexpr int kBlock = codec::hot::hadamard_block(kHeadDim), kOwn = kHeadDim / 32;
        const int32_t lane = warp_lane();
        __syncthreads();
        for (int row = static_cast<int>(threadIdx.x / 32); row < kRows; row += kWarps) {
            float x[kOwn];
#pragma unroll
            for (int i = 0; i < kOwn; ++i) x[i] = s_.rows[row][lane + 32 * i];
#pragma unroll
            for (int h = 1; h < 32 && h < kBlock; h *= 2) {
#pragma unroll
                for (float& own : x) {
                    const float other = __shfl_xor_sync(0xffffffff, own, h);
                    own = (lane & h) == 0 ? own + other : other - own;
                }
            }
#pragma unroll
            for (int h = 32; h < kBlock; h *= 2) {
#pragma unroll
                for (int i = 0; i < kOwn; ++i) {
                    if ((32 * i & h) != 0) continue;
                    const float a = x[i], b = x[i + h / 32];
                    x[i] = a + b;
                    x[i + h / 32] = a - b;
                }
            }
#pragma unroll
            for (int i = 0; i < kOwn; ++i) s_.rows[row][lane + 32 * i] = x[i];
        }
        __syncthreads();
    }

    __device__ float load_number(int64_t at) const {
        switch (p_.element) {
            case Numbers::f32:
                return static_cast<const float*>(p_.q)[at];
            case Numbers::f16:
                return __half2float(static_cast<const __half*>(p_.q)[at]);
            default:
                return __bfloat162float(static_cast<const __nv_bfloat16*>(p_.q)[at]);
        }
    }
    __device__ void store_number(int64_t at, float x) const {
        switch (p_.element) {
            case Numbers::f32:
                static_cast<float*>(p_.out)[at] = x;
                return;
            case Numbers::f16:
                static_cast<__half*>(p_.out)[at] = __float2half_rn(x);
                return;
            default:
                static_cast<__nv_bfloat16*>(p_.out)[at] = __float2bfloat16_rn(x);
        }
    }

    // Of a row of this pass: among all rows of the KV head; -1: there is none.
    __device__ int32_t row_of(const ChunkWalk& now, int32_t row) const {
        const int32_t all = now.pass * kRows + row;
        return all < p_.n_queries * group_ ? all : -1;
    }
    __device__ int64_t number_at(const ChunkWalk& now, int32_t row, int64_t token_stride,
                                 int64_t head_stride) const {
        const int64_t token = int64_t{now.segment.request} * p_.n_queries + row / group_;
        return token * token_stride + (now.kv_head * group_ + row % group_) * head_stride;
    }

    __device__ void load_queries(const ChunkWalk& now) {
        const float unit = p_.softcap > 0 ? p_.scale / p_.softcap : p_.scale * kLog2e;
        const float norm = unit * codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * kHeadDim; i += kThreads) {
            const int32_t row = row_of(now, i / kHeadDim), d = i % kHeadDim;
            (&s_.rows[0][0])[i] =
                row < 0
                    ? 0.0f
                    : norm *
                          load_number(number_at(now, row, p_.q_token_stride, p_.q_head_stride) + d);
        }
        rotate_rows();
        const uint32_t lane = threadIdx.x % 32;
        for (int i = static_cast<int>(threadIdx.x) / 32; i < kTiles * Map::kSteps; i += kWarps) {
            const int tile = i / Map::kSteps, step = i % Map::kSteps;
            const float* x = s_.rows[kRowsOfTile * tile + lane / 4] + 16 * step + 4 * (lane % 4);
            s_.q[tile][step][lane] = {f16_pair(x[0], x[1]), f16_pair(x[2], x[3])};
        }
        __syncthreads();
        warp_.clear();
    }

    __device__ void attend(const KeySpan& keys, int32_t token, uint32_t slot) {
        typename Warp::Scores scores = {};
        with_bits(p_.k_bits, [&]<int kBits>() {
            warp_.template add_scores<kBits>(slot, k_table_, &s_.q[0][0][0], scores);
        });
        const uint32_t scales = slot + plan_.slot_scales + first_token(threadIdx.x % 32 / 4);
        const uint32_t k_units = load_shared(scales);
        uint32_t v_units = load_shared(scales + kChunkTokens);
        scale_scores(k_units, scores);
        const int32_t first_end = keys.end - p_.n_queries + 1;  // of the first query's keys
        const int32_t chunk_end = token + static_cast<int32_t>(kChunkTokens);
        if (chunk_end > first_end || (p_.window > 0 && token < keys.end - p_.window))
            v_units = hide(keys, token, v_units, scores);
        warp_.weigh(scores);
        typename Warp::Weights weights;
        pack_weights(v_units, scores, weights);
        with_bits(p_.v_bits, [&]<int kBits>() {
            warp_.template add_values<kBits>(slot + plan_.slot_values, v_table_, weights);
        });
    }

    // Score i of a lane's tile: token row i / 2, query row 2t + i % 2.
    __device__ __forceinline__ void scale_scores(uint32_t units, typename Warp::Scores& s) const {
        const float octaves = -static_cast<float>(codec::hot::octaves(p_.k_bits));
#pragma unroll
        for (int of_four = 0; of_four < 4; ++of_four) {
            const float scale = scale_of(units, of_four, octaves);
#pragma unroll
            for (int n = 0; n < kTiles; ++n) {
                s[n][of_four / 2][of_four % 2 * 2] *= scale;
                s[n][of_four / 2][of_four % 2 * 2 + 1] *= scale;
            }
        }
        if (p_.softcap <= 0) return;
#pragma unroll
        for (auto& rows : s)
#pragma unroll
            for (auto& tile : rows)
#pragma unroll
                for (float& x : tile) x = tanhf(x) * p_.softcap * kLog2e;
    }

    // Takes away what a query does not see. Returns units of values, none for tokens that are not.
    __device__ uint32_t hide(const KeySpan& keys, int32_t token, uint32_t v_units,
                             typename Warp::Scores& s) const {
        const auto lane = static_cast<int32_t>(threadIdx.x % 32);
        const int32_t first = token + static_cast<int32_t>(first_token(lane / 4));
        const int32_t pass = s_.walk(kWarps)->pass * kRows;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const int32_t row = pass + kRowsOfTile * n + 2 * (lane % 4) + c;
                const int32_t end = keys.end - p_.n_queries + 1 + row / group_;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int32_t key = first + i;
                    if (key >= end || (p_.window > 0 && key < end - p_.window))
                        s[n][i / 2][c + i % 2 * 2] = kNoScore;
                }
            }
        }
        const int32_t left = keys.end - first;  // of the lane's four tokens
        return left >= 4 ? v_units : left <= 0 ? 0 : v_units & (0xffffffffu >> (32 - 8 * left));
    }

    // Weights times scales of values, in units that f16 holds, as the products' second operand.
    __device__ __forceinline__ void pack_weights(uint32_t v_units,
                                                 const typename Warp::Scores& weights,
                                                 typename Warp::Weights& packed) {
        uint32_t top =
            max(max(v_units & 0xff, v_units >> 8 & 0xff), max(v_units >> 16 & 0xff, v_units >> 24));
        top = __reduce_max_sync(0xffffffff, top);
        if (static_cast<int32_t>(top) > warp_.v_unit) warp_.change_unit(static_cast<int32_t>(top));
        const float octaves = kWeightOctaves - static_cast<float>(warp_.v_unit) * 0.0625f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float scale = scale_of(v_units, i, octaves);
#pragma unroll
            for (int n = 0; n < kTiles; ++n)
                packed[n][i / 2][i % 2] =
                    transpose_8x8(f16_pair(weights[n][i / 2][i % 2 * 2] * scale,
                                           weights[n][i / 2][i % 2 * 2 + 1] * scale));
        }
    }

    // Sums of all warps in units of the largest score of all, into rows, row_max and row_sum. Warps
    // count from the one that has the segment's first chunk.
    __device__ void join_warps(const ChunkWalk& now) {
        const int32_t warp = static_cast<int32_t>(threadIdx.x / 32), lane = warp_lane();
        const int32_t order = (warp + kWarps - now.first % kWarps) % kWarps;
        const int32_t n = min(kWarps, now.last - now.first);
        leave_row_sums(order, lane);
        __syncthreads();
        // [i] of this thread's numbers of all rows.
        constexpr int kNumbers = kRows * kHeadDim;
        constexpr int kOwn = (kNumbers + kThreads - 1) / kThreads;
        float own[kOwn] = {};
        for (int32_t first = 0; first < n; first += Shared::kJoined) {
            if (order >= first && order < min(n, first + Shared::kJoined))
                leave_sums(&s_.join[order - first][0][0], n, lane);
            __syncthreads();
            const int32_t here = min(n - first, Shared::kJoined);
#pragma unroll
            for (int i = 0; i < kOwn; ++i)
                for (int32_t w = 0; w < here; ++w)
                    if (own_at(i) < kNumbers) own[i] += (&s_.join[w][0][0])[own_at(i)];
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
            if (own_at(i) < kNumbers) (&s_.rows[0][0])[own_at(i)] = own[i];
        for (int32_t row = static_cast<int32_t>(threadIdx.x); row < kRows; row += kThreads) {
            const float top = top_of(row, n);
            float sum = 0;
            for (int32_t w = 0; w < n; ++w)
                sum += s_.sum[w][row] * exp2_fast(s_.max[w][row] - (top == kNoScore ? 0 : top));
            s_.row_max[row] = top;
            s_.row_sum[row] = sum;
        }
        __syncthreads();
    }

    __device__ float top_of(int32_t row, int32_t n) const {
        float top = kNoScore;
        for (int32_t w = 0; w < n; ++w) top = fmaxf(top, s_.max[w][row]);
        return top;
    }

    __device__ void leave_row_sums(int32_t order, int32_t lane) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float sum = warp_.sum[n][c];
#pragma unroll
                for (int distance = 4; distance < 32; distance *= 2)
                    sum += __shfl_xor_sync(0xffffffff, sum, distance);
                if (lane / 4 != 0) continue;
                const int32_t row = kRowsOfTile * n + 2 * (lane % 4) + c;
                s_.max[order][row] = warp_.max[n][c];
                s_.sum[order][row] = sum;
            }
        }
    }

    __device__ void leave_sums(float* to, int32_t n_warps, int32_t lane) const {
        const float unit =
            exp2_fast(static_cast<float>(warp_.v_unit) * 0.0625f -
                      static_cast<float>(codec::hot::octaves(p_.v_bits)) - kWeightOctaves);
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const int32_t row = kRowsOfTile * n + 2 * (lane % 4) + c;
                const float top = top_of(row, n_warps);
                const float keep =
                    unit * exp2_fast(warp_.max[n][c] - (top == kNoScore ? 0.0f : top));
#pragma unroll
                for (int tile = 0; tile < 4 * Map::kParts; ++tile) {
                    if (!Map::has_part(lane / 4, tile / 4)) continue;
                    float* at = to + row * kHeadDim + Map::value_dim(lane / 4, tile / 4, tile % 4);
                    at[0] = warp_.out[n][tile][c] * keep;
                    at[16] = warp_.out[n][tile][c + 2] * keep;
                }
            }
        }
    }

    // From rows, row_max and row_sum: back from the codec's space, and out.
    __device__ void write_rows(const ChunkWalk& now) {
        const float norm = codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
        rotate_rows();
        const float* mean =
            p_.v_mean == nullptr ? nullptr : p_.v_mean + int64_t{now.kv_head} * kHeadDim;
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * kHeadDim; i += kThreads) {
            const int32_t row = row_of(now, i / kHeadDim), d = i % kHeadDim;
            if (row < 0) continue;
            const float sum = s_.row_sum[i / kHeadDim];
            float x = sum > 0 ? (&s_.rows[0][0])[i] * norm / sum : 0.0f;
            if (mean != nullptr && sum > 0) x += mean[d];
            store_number(number_at(now, row, p_.out_token_stride, p_.out_head_stride) + d, x);
            if (d == 0 && p_.lse != nullptr)
                p_.lse[number_at(now, row, p_.n_heads, 1)] =
                    sum > 0 ? (s_.row_max[i / kHeadDim] + log2f(sum)) / kLog2e : kNoScore;
        }
    }

    __device__ float* partial_at(int32_t slot) const {
        return workspace().partials + slot * partial_floats(kRows, kHeadDim);
    }

    __device__ void leave_partial(const ChunkWalk& now) {
        float* to = partial_at(now.segment.slot);
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * kHeadDim; i += kThreads)
            to[i] = (&s_.rows[0][0])[i];
        if (threadIdx.x < kRows) {
            to[kRows * kHeadDim + threadIdx.x] = s_.row_max[threadIdx.x];
            to[kRows * (kHeadDim + 1) + threadIdx.x] = s_.row_sum[threadIdx.x];
        }
        __threadfence();
        __syncthreads();
        const WorkList work = list();
        const int32_t waits_for = work.workers_of(now.segment.request, now.segment.head);
        if (threadIdx.x == 0) {
            int32_t* arrived =
                workspace().arrived + now.segment.request * work.n_heads + now.segment.head;
            s_.is_last = atomicAdd(arrived, 1) + 1 == waits_for;
        }
        __syncthreads();
        if (!s_.is_last) return;
        __threadfence();
        merge_partials(work, now.segment, waits_for);
        write_rows(now);
    }

    // In order of workers, so that it does not matter who is last.
    __device__ void merge_partials(const WorkList& work, const Segment& segment, int32_t n) {
        const int64_t tiles =
            work.first_tiles[segment.request + 1] - work.first_tiles[segment.request];
        const int64_t first =
            int64_t{work.first_tiles[segment.request]} * work.n_heads + segment.head * tiles;
        const int32_t worker = work.worker_of(first);
        const auto slot = [&](int32_t i) { return work.slot_of(worker + i, i + 1 < n); };
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * kHeadDim; i += kThreads) {
            const int32_t row = i / kHeadDim;
            float top = kNoScore, sum = 0, out = 0;
            for (int32_t w = 0; w < n; ++w)
                top = fmaxf(top, partial_at(slot(w))[kRows * kHeadDim + row]);
            const float base = top == kNoScore ? 0.0f : top;
            for (int32_t w = 0; w < n; ++w) {
                const float* from = partial_at(slot(w));
                const float keep = exp2_fast(from[kRows * kHeadDim + row] - base);
                sum += from[kRows * (kHeadDim + 1) + row] * keep;
                out += from[i] * keep;
            }
            (&s_.rows[0][0])[i] = out;
            if (i % kHeadDim == 0) {
                s_.row_max[row] = top;
                s_.row_sum[row] = sum;
            }
        }
        __syncthreads();
    }

    static __device__ int32_t own_at(int i) {
        return static_cast<int32_t>(threadIdx.x) + i * kThreads;
    }
    static __device__ int32_t warp_lane() { return static_cast<int32_t>(threadIdx.x % 32); }

    const DecodePlan& plan_;
    const DecodeParams& p_;
    Shared& s_;
    const int32_t group_;  // heads of a KV head
    const LevelTable k_table_, v_table_;
    Feed<kHeadDim> feed_;
    Warp warp_;
};

template <int kHeadDim, int kTiles>
constexpr size_t kDecodeSharedBytes = (sizeof(DecodeShared<kHeadDim, kTiles>) + 127) / 128 * 128;

template <int kHeadDim, int kTiles>
__global__ void __launch_bounds__(32 * kDecodeWarps<kHeadDim, kTiles>, 1)
    decode_kernel(const __grid_constant__ DecodePlan plan) {
    using Shared = DecodeShared<kHeadDim, kTiles>;
    fill_table(plan.p.k_bits, plan.p.v_bits);
    const uint32_t slots_at =
        shared_address(decode_memory) +
        static_cast<uint32_t>(plan.table_bytes + kDecodeSharedBytes<kHeadDim, kTiles>);
    DecodeBlock<kHeadDim, kTiles>(plan, reinterpret_cast<Shared*>(decode_memory + plan.table_bytes),
                                  slots_at)
        .run();
}

template <int kHeadDim, int kTiles>
DecodePlan plan_decode(const DecodeParams& p) {
    using Map = ChunkMap<kHeadDim>;
    const codec::hot::Shape shape = {p.k_bits, p.v_bits, kHeadDim,
                                     static_cast<uint32_t>(p.block_tokens)};
    DecodePlan plan;
    plan.p = p;
    plan.passes = passes_of(p);
    plan.table_bytes = has_table(p.k_bits) || has_table(p.v_bits) ? kTableBytes : 0;
    plan.slot_bytes = Map::slot_bytes(p.k_bits, p.v_bits);
    plan.slot_values = Map::side_bytes(p.k_bits);
    plan.slot_scales = Map::k_scales_at(p.k_bits, p.v_bits);
    plan.page_values = static_cast<uint32_t>(codec::hot::v_offset(shape));
    plan.page_k_scales = static_cast<uint32_t>(codec::hot::k_scales_offset(shape));
    plan.page_v_scales = static_cast<uint32_t>(codec::hot::v_scales_offset(shape));
    while (16 << plan.group_shift < p.block_tokens) ++plan.group_shift;
    const size_t room =
        kSharedMax - static_cast<size_t>(plan.table_bytes) - kDecodeSharedBytes<kHeadDim, kTiles>;
    constexpr auto kWarps = kDecodeWarps<kHeadDim, kTiles>;
    constexpr size_t kRoom = kSharedMax - kDecodeSharedBytes<kHeadDim, kTiles>;
    static_assert(kRoom / Map::slot_bytes(8, 8) >= kWarps);
    static_assert((kRoom - kTableBytes) / Map::slot_bytes(8, 5) >= kWarps);
    plan.slots = static_cast<int32_t>(room / plan.slot_bytes);
    if (plan.slots > kSlotsMax) plan.slots = kSlotsMax;
    if (plan.slots >= 2 * kWarps) plan.slots -= plan.slots % kWarps;
    plan.slots_are_shared = plan.slots % kWarps != 0;
    plan.block_stride = static_cast<uint32_t>(p.block_stride);
    return plan;
}

template <int kHeadDim, int kTiles>
int launch_decode(const DecodeParams& p, int32_t workers, CUstream_st* stream) {
    const DecodePlan plan = plan_decode<kHeadDim, kTiles>(p);
    const size_t shared = static_cast<size_t>(plan.table_bytes) +
                          kDecodeSharedBytes<kHeadDim, kTiles> +
                          static_cast<size_t>(plan.slots) * plan.slot_bytes;
    if (const int error =
            allow_shared(reinterpret_cast<const void*>(decode_kernel<kHeadDim, kTiles>), shared))
        return error;
    launch_prepare(p, stream);
    decode_kernel<kHeadDim, kTiles>
        <<<static_cast<uint32_t>(workers), 32 * kDecodeWarps<kHeadDim, kTiles>, shared, stream>>>(
            plan);
    return static_cast<int>(cudaGetLastError());
}

}  // namespace quire::kernels::cuda
