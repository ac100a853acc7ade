// The kernel of decode.h. A warp is a worker of sched/work_list.h: it takes its keys 32 at a time
// from slots of its own (feed.cuh) and waits for no other warp until all have read theirs.
//
// Shared memory: [table of levels, if any][DecodeShared][slots of all warps].
#pragma once

#include "kernels/cuda/attn/merge.cuh"
#include "kernels/cuda/attn/warp_state.cuh"
#include "kernels/cuda/codec/widths.cuh"

namespace quire::kernels::cuda {

inline constexpr size_t kSharedMax = 227 * 1024;

template <int kHeadDim, int kTiles>
struct DecodeShared {
    static constexpr int kWarps = decode_warps(kHeadDim, kTiles);
    uint2 q[kWarps][kTiles][kHeadDim / 16][32];  // query rows as operands of the products
    alignas(16) std::byte walks[kWarps][2][sizeof(ChunkWalk)];  // to be brought, and to be read
    Barrier full[kSlotsMax];

    __device__ ChunkWalk* walk(uint32_t warp, int i) {
        return reinterpret_cast<ChunkWalk*>(walks[warp][i]);
    }
};

template <int kHeadDim, int kTiles>
class DecodeWarp {
    using Shared = DecodeShared<kHeadDim, kTiles>;
    using Map = ChunkMap<kHeadDim>;
    static constexpr int kUnits = decode_units(kHeadDim, kTiles);
    using State = WarpState<kHeadDim, kTiles, kUnits>;
    static constexpr int kRows = kRowsOfTile * kTiles;

 public:
    __device__ DecodeWarp(const DecodePlan& plan, const DecodeWorkspace& work, Shared* shared,
                          uint32_t slots_at, uint32_t warp, int32_t worker)
        : plan_(plan),
          p_(plan.p),
          partials_(work.partials),
          now_(*shared->walk(warp, 1)),
          q_(&shared->q[warp][0][0][0]),
          worker_(worker),
          k_table_(true, plan.p.k_bits),
          v_table_(false, plan.p.v_bits),
          feed_(plan, shared->full + warp * static_cast<uint32_t>(plan.slots),
                shared->walk(warp, 0),
                slots_at + warp * static_cast<uint32_t>(plan.slots) * plan.slot_bytes) {}

    __device__ __forceinline__ void run() {
        for (int32_t ahead = 0; ahead < plan_.slots; ++ahead) feed_.bring(feed_.find(ahead), ahead);
        int32_t chunk = 0;
        RingPlace place;
        while (next_segment()) {
            load_queries();
            const KeySpan keys = now_.keys;
            const int32_t start = now_.token, last = now_.last;
            while (chunk < last) {
                const int32_t token = start + chunk * kChunkKeys;
                int32_t slot[kUnits];
                typename State::Slots slots;
                FoundChunk found[kUnits];
#pragma unroll
                for (int u = 0; u < kUnits; ++u) found[u] = feed_.find(chunk + plan_.slots + u);
#pragma unroll
                for (int u = 0; u < kUnits; ++u) {
                    feed_.wait(place.slot, place.parity);
                    slot[u] = place.slot;
                    slots[u] = feed_.address(place.slot);
                    place.forward(plan_.slots);
                }
                attend(keys, token, slots);
#pragma unroll
                for (int u = 0; u < kUnits; ++u) feed_.bring(found[u], slot[u]);
                chunk += kUnits;
            }
            leave_partial();
        }
    }

 private:
    struct RingPlace {
        int32_t slot = 0;
        uint32_t parity = 0;
        __device__ __forceinline__ void forward(int32_t slots) {
            if (++slot < slots) return;
            slot = 0;
            parity ^= 1;
        }
    };

    __device__ bool next_segment() {
        __syncwarp();
        if (lane() == 0) now_.next(plan_);
        __syncwarp();
        return now_.more;
    }
    static __device__ __forceinline__ int32_t lane() {
        return static_cast<int32_t>(threadIdx.x % 32);
    }
    __device__ RowsOfPass rows() const {
        return {p_, now_.segment.request, now_.kv_head, now_.pass * kRows};
    }

    __device__ void load_queries() {
        const float unit = p_.softcap > 0 ? p_.scale / p_.softcap : p_.scale * kLog2e;
        const float norm = unit * codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
        const RowsOfPass rows = this->rows();
        auto* halves = reinterpret_cast<__half*>(q_);
        for (int row = 0; row < kRows; ++row) {
            WarpRow<kHeadDim> x = {};
            const int64_t at = rows.at(p_, row, p_.q_token_stride, p_.q_head_stride);
#pragma unroll
            for (int i = 0; i < WarpRow<kHeadDim>::kOwn; ++i)
                if (rows.has(row)) x.x[i] = load_number(p_.q, p_.element, at + lane() + 32 * i);
            x.rotate();
#pragma unroll
            for (int i = 0; i < WarpRow<kHeadDim>::kOwn; ++i)
                halves[operand_at(row, lane() + 32 * i)] = __float2half_rn(x.x[i] * norm);
        }
        __syncwarp();
        state_.clear();
    }
    // Where a row's dimension is in q_, in halves: column r of lane t of its step.
    __device__ int32_t operand_at(int32_t row, int32_t dim) const {
        const int32_t d = dim % 16;
        const int32_t t = p_.k_bits == 8 ? d % 8 / 2 : d / 4;
        const int32_t r = p_.k_bits == 8 ? d / 8 * 2 + d % 2 : d % 4;
        const int32_t step = row / kRowsOfTile * Map::kSteps + dim / 16;
        return (step * 32 + row % kRowsOfTile * 4 + t) * 4 + r;
    }

    __device__ __forceinline__ void attend(const KeySpan& keys, int32_t token,
                                           const typename State::Slots& slots) {
        typename State::Scores scores = {};
        with_bits(p_.k_bits, [&]<int kBits>() {
            state_.template add_scores<kBits>(slots, k_table_, q_, scores);
        });
        uint32_t v_units[kUnits];
        const int32_t first_end = keys.end - p_.n_queries + 1;  // of the first query's keys
        const bool hides = token + kUnits * kChunkKeys > first_end ||
                           (p_.window > 0 && token < keys.end - p_.window);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
            const uint32_t scales =
                slots[u] + plan_.slot_scales + first_token(threadIdx.x % 32 / 4);
            scale_scores(load_shared(scales), scores[u]);
            v_units[u] = load_shared(scales + kChunkTokens);
        }
        if (hides) {
#pragma unroll
            for (int u = 0; u < kUnits; ++u)
                v_units[u] = hide(keys, token + u * kChunkKeys, v_units[u], scores[u]);
        }
        state_.weigh(scores);
        typename State::Weights weights;
        pack_weights(v_units, scores, weights);
        with_bits(p_.v_bits, [&]<int kBits>() {
            state_.template add_values<kBits>(slots, plan_.slot_values, v_table_, weights);
        });
    }

    // Score i of a lane's tile: token row i / 2, query row 2t + i % 2.
    using ChunkScores = float[kTiles][2][4];

    __device__ __forceinline__ void scale_scores(uint32_t units, ChunkScores& s) const {
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
                             ChunkScores& s) const {
        const int32_t first = token + static_cast<int32_t>(first_token(threadIdx.x % 32 / 4));
        const RowsOfPass rows = this->rows();
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const int32_t row = kRowsOfTile * n + 2 * (lane() % 4) + c;
                const int32_t end = keys.end - p_.n_queries + 1 + rows.query_of(row);
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
    __device__ __forceinline__ void pack_weights(const uint32_t (&v_units)[kUnits],
                                                 const typename State::Scores& weights,
                                                 typename State::Weights& packed) {
        uint32_t top = 0;
#pragma unroll
        for (const uint32_t units : v_units)
#pragma unroll
            for (int i = 0; i < 4; ++i) top = max(top, units >> (8 * i) & 0xff);
        top = __reduce_max_sync(0xffffffff, top);
        if (static_cast<int32_t>(top) > state_.v_unit)
            state_.change_unit(static_cast<int32_t>(top));
        const float octaves = kWeightOctaves - static_cast<float>(state_.v_unit) * 0.0625f;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float scale = scale_of(v_units[u], i, octaves);
#pragma unroll
                for (int n = 0; n < kTiles; ++n)
                    packed[u][n][i / 2][i % 2] =
                        transpose_8x8(f16_pair(weights[u][n][i / 2][i % 2 * 2] * scale,
                                               weights[u][n][i / 2][i % 2 * 2 + 1] * scale));
            }
        }
    }

    // What this warp has of the segment, to the workspace; a segment that is whole, from there out.
    __device__ void leave_partial() {
        const Segment& segment = now_.segment;
        const int32_t slot = segment.whole ? 2 * plan_.workers_max + worker_ : segment.slot;
        float* to = partials_ + slot * partial_floats(kRows, kHeadDim);
        leave_sums(to);
        if (!segment.whole) return;
        __syncwarp();
        const RowsOfPass rows = this->rows();
        for (int32_t row = 0; row < kRows && rows.has(row); ++row) {
            WarpRow<kHeadDim> sums;
#pragma unroll
            for (int i = 0; i < WarpRow<kHeadDim>::kOwn; ++i)
                sums.x[i] = to[row * kHeadDim + lane() + 32 * i];
            write_row(p_, rows, row, sums, to[kRows * kHeadDim + row],
                      to[kRows * (kHeadDim + 1) + row]);
        }
        __syncwarp();
    }

    __device__ void leave_sums(float* to) const {
        const float unit =
            exp2_fast(static_cast<float>(state_.v_unit) * 0.0625f -
                      static_cast<float>(codec::hot::octaves(p_.v_bits)) - kWeightOctaves);
        const auto g = static_cast<uint32_t>(lane()) / 4;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const int32_t row = kRowsOfTile * n + 2 * (lane() % 4) + c;
                float sum = state_.sum[n][c];
#pragma unroll
                for (int distance = 4; distance < 32; distance *= 2)
                    sum += __shfl_xor_sync(0xffffffff, sum, distance);
                if (g == 0) {
                    to[kRows * kHeadDim + row] = state_.max[n][c];
                    to[kRows * (kHeadDim + 1) + row] = sum;
                }
#pragma unroll
                for (int i = 0; i < static_cast<int>(Map::kParts); ++i) {
                    if (!Map::has_part(g, i)) continue;
#pragma unroll
                    for (int far = 0; far < 2; ++far) {
                        const auto& tile = state_.out[n];
                        const int at = c + 2 * far;
                        *reinterpret_cast<float4*>(to + row * kHeadDim + Map::value_dim(g, i, 0) +
                                                   16 * far) = {
                            tile[4 * i][at] * unit, tile[4 * i + 1][at] * unit,
                            tile[4 * i + 2][at] * unit, tile[4 * i + 3][at] * unit};
                    }
                }
            }
        }
    }

    const DecodePlan& plan_;
    const DecodeParams& p_;
    float* const partials_;
    ChunkWalk& now_;
    uint2* const q_;  // [kTiles][steps][32]
    const int32_t worker_;
    const LevelTable k_table_, v_table_;
    Feed<kHeadDim> feed_;
    State state_;
};

template <int kHeadDim, int kTiles>
constexpr size_t kDecodeSharedBytes = (sizeof(DecodeShared<kHeadDim, kTiles>) + 127) / 128 * 128;

template <int kHeadDim, int kTiles>
__global__ void __launch_bounds__(32 * decode_warps(kHeadDim, kTiles), 1)
    decode_kernel(const __grid_constant__ DecodePlan plan) {
    using Shared = DecodeShared<kHeadDim, kTiles>;
    Shared& shared = *reinterpret_cast<Shared*>(decode_memory + plan.table_bytes);
    std::byte* slots = decode_memory + plan.table_bytes + kDecodeSharedBytes<kHeadDim, kTiles>;
    const DecodeWorkspace work = divide_workspace(plan.p, plan.workers_max);
    WorkList list = {work.first_tiles, plan.p.n_requests, plan.p.kv_heads * plan.passes, 0};
    // As few warps of each block as have a tile each, so that all blocks work.
    const auto blocks = static_cast<int64_t>(gridDim.x);
    const auto each = static_cast<int32_t>(
        max(int64_t{1}, min(int64_t{plan.warps}, (list.tiles() + blocks - 1) / blocks)));
    list.n_workers = each * static_cast<int32_t>(gridDim.x);

    fill_table(plan.p.k_bits, plan.p.v_bits);
    const uint32_t warp = threadIdx.x / 32;
    const int32_t worker = static_cast<int32_t>(blockIdx.x) * each + static_cast<int32_t>(warp);
    const bool works = static_cast<int32_t>(warp) < each && worker < list.busy();
    if (threadIdx.x < plan.warps * plan.slots) shared.full[threadIdx.x].init(32);
    if (threadIdx.x % 32 < 2 && works)
        *shared.walk(warp, static_cast<int>(threadIdx.x % 32)) = ChunkWalk(list, worker);
    fence_barriers();
    __syncthreads();
    if (works)
        DecodeWarp<kHeadDim, kTiles>(plan, work, &shared, shared_address(slots), warp, worker)
            .run();
    __threadfence();
    __syncthreads();
    Merger<kHeadDim, kRowsOfTile * kTiles>(plan, list, work, each, reinterpret_cast<float*>(slots))
        .run();
}

template <int kHeadDim, int kTiles>
DecodePlan plan_decode(const DecodeParams& p, int32_t blocks) {
    using Map = ChunkMap<kHeadDim>;
    constexpr int32_t kUnits = decode_units(kHeadDim, kTiles);
    constexpr int32_t kWarps = decode_warps(kHeadDim, kTiles);
    constexpr size_t kRoom = kSharedMax - kDecodeSharedBytes<kHeadDim, kTiles>;
    static_assert((kRoom - kTableBytes) / Map::slot_bytes(8, 5) > kUnits);
    const codec::hot::Shape shape = {p.k_bits, p.v_bits, kHeadDim,
                                     static_cast<uint32_t>(p.block_tokens)};
    DecodePlan plan;
    plan.p = p;
    plan.passes = passes_of(p);
    plan.workers_max = blocks * kWarps;
    plan.tile_tokens = kUnits * kChunkKeys;
    plan.table_bytes = has_table(p.k_bits) || has_table(p.v_bits) ? kTableBytes : 0;
    plan.slot_bytes = Map::slot_bytes(p.k_bits, p.v_bits);
    plan.slot_values = Map::v_at(p.k_bits);
    plan.slot_scales = Map::scales_at(p.k_bits, p.v_bits);
    plan.page_values = static_cast<uint32_t>(codec::hot::v_offset(shape));
    plan.page_k_scales = static_cast<uint32_t>(codec::hot::k_scales_offset(shape));
    plan.page_v_scales = static_cast<uint32_t>(codec::hot::v_scales_offset(shape));
    plan.block_stride = static_cast<uint32_t>(p.block_stride);
    while (16 << plan.group_shift < p.block_tokens) ++plan.group_shift;
    // A slot more than is read at once, at least, and fewer warps where slots are large.
    const auto slots = static_cast<int32_t>((kRoom - plan.table_bytes) / plan.slot_bytes);
    const int32_t warps = slots / (kUnits + 1);
    plan.warps = warps < kWarps ? warps : kWarps;
    plan.slots = slots / plan.warps;
    if (plan.slots * plan.warps > kSlotsMax) plan.slots = kSlotsMax / plan.warps;
    return plan;
}

template <int kHeadDim, int kTiles>
int launch_decode(const DecodeParams& p, int32_t blocks, CUstream_st* stream) {
    const DecodePlan plan = plan_decode<kHeadDim, kTiles>(p, blocks);
    const size_t shared = plan.table_bytes + kDecodeSharedBytes<kHeadDim, kTiles> +
                          static_cast<size_t>(plan.warps * plan.slots) * plan.slot_bytes;
    const auto kernel = decode_kernel<kHeadDim, kTiles>;
    if (const int e = allow_shared(reinterpret_cast<const void*>(kernel), shared)) return e;
    launch_prepare(plan, stream);
    kernel<<<static_cast<uint32_t>(blocks), 32 * decode_warps(kHeadDim, kTiles), shared, stream>>>(
        plan);
    return static_cast<int>(cudaGetLastError());
}

}  // namespace quire::kernels::cuda
