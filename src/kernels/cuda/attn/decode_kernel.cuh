// The kernel of decode.h. A warp is a worker of sched/work_list.h: it takes its keys 32 at a time
// from slots of its own (feed.cuh) and waits for no other warp until all have read theirs.
//
// Shared memory: [table of levels, if any][DecodeShared][slots of all warps].
#pragma once

#include "kernels/cuda/attn/merge.cuh"
#include "kernels/cuda/attn/prepare.cuh"
#include "kernels/cuda/attn/warp_state.cuh"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/ptx/grid.cuh"

namespace quire::kernels::cuda {

template <int kHeadDim, int kTiles, class Pages>
struct DecodeShared {
    static constexpr int kWarps = Pages::warps(kHeadDim, kTiles);
    static constexpr int kUnits = Pages::units(kHeadDim, kTiles);
    uint2 q[kWarps][kTiles][kHeadDim / 16][32];  // query rows as operands of the products
    alignas(16) std::byte walks[kWarps][2][sizeof(ChunkWalk)];  // to be brought, and to be read
    WorkList list;
    int32_t block_workers;
    // Of one request and pass, by more than one worker: one for each that begins with a worker, and
    // one that began in a block before.
    SharedHead heads[kWarps + 1];
    int32_t n_heads;

    __device__ ChunkWalk* walk(uint32_t warp, int i) {
        return reinterpret_cast<ChunkWalk*>(walks[warp][i]);
    }
};

template <int kHeadDim, int kTiles, class Pages>
class DecodeWarp {
    using Shared = DecodeShared<kHeadDim, kTiles, Pages>;
    using Map = ChunkMap<kHeadDim>;
    static constexpr int kUnits = Shared::kUnits;
    using State = WarpState<kHeadDim, kTiles, kUnits>;
    static constexpr int kRows = kRowsOfTile * kTiles;

 public:
    __device__ DecodeWarp(const DecodePlan& plan, Shared* shared, uint32_t slots_at, uint32_t warp)
        : plan_(plan),
          p_(plan.p),
          shared_(*shared),
          worker_(static_cast<int32_t>(blockIdx.x) * shared->block_workers +
                  static_cast<int32_t>(warp)),
          now_(*shared->walk(warp, 1)),
          q_(&shared->q[warp][0][0][0]),
          k_table_(true, plan.p.k_bits),
          v_table_(false, plan.p.v_bits),
          feed_(plan, shared->walk(warp, 0), slots_at + warp * kUnits * plan.slot_bytes) {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) slots_[u] = feed_.slot(u);
    }

    // All of the worker's segments. The first round reads nothing: its keys come while queries do.
    // Everything stands here once, for instructions come from afar too.
    __device__ __forceinline__ void run() {
        int32_t last = 0;
        for (int32_t chunk = -kUnits;;) {
            FoundGroup found;
            typename State::Weights weights;
            const bool reads = chunk >= 0;
            const bool more = feed_.find(chunk + kUnits, found);
            if (reads) {
                feed_.wait();
                weigh_keys(now_.token + chunk * kChunkKeys, weights);
            }
            feed_.bring_keys(more, found);
            if (reads) {
                feed_.wait();
                add_values(now_.token + chunk * kChunkKeys, weights);
            }
            feed_.bring_values(more, found);
            chunk += kUnits;
            if (chunk < last) continue;
            if (reads) leave_partial();
            if (!next_segment()) return;
            last = now_.last;
            load_queries();
        }
    }

 private:
    // The one of the keys that were brought last.
    __device__ bool next_segment() {
        constexpr auto kWords = static_cast<int32_t>(sizeof(ChunkWalk) / 4);
        __syncwarp();
        for (int32_t i = lane(); i < kWords; i += 32)
            reinterpret_cast<uint32_t*>(&now_)[i] =
                reinterpret_cast<const uint32_t*>(&feed_.walk())[i];
        __syncwarp();
        return now_.more;
    }
    static __device__ __forceinline__ int32_t lane() {
        return static_cast<int32_t>(threadIdx.x % 32);
    }
    __device__ RowsOfPass rows() const {
        return {plan_, now_.segment.request, now_.kv_head, now_.pass * kRows};
    }

    __device__ __forceinline__ void load_queries() {
        constexpr auto kVectors = static_cast<int>(QueryOperands<kHeadDim, kTiles>::kWords / 4);
        const int64_t of =
            int64_t{now_.segment.request} * p_.kv_heads * plan_.passes + now_.segment.head;
        const auto* from = reinterpret_cast<const uint4*>(work().queries) + of * kVectors;
#pragma unroll
        for (int i = 0; i < kVectors; i += 32)
            if (kVectors % 32 == 0 || i + lane() < kVectors)
                reinterpret_cast<uint4*>(q_)[i + lane()] = __ldcg(from + i + lane());
        if constexpr (!Pages::kCodes)
            score_norm_ = plan_.score_norm *
                          (p_.k_scales == nullptr ? 1.0f : __ldg(p_.k_scales + now_.kv_head));
        __syncwarp();
        state_.clear();
    }

    // Does a query not see all of the keys from `token` on?
    __device__ __forceinline__ bool hides(int32_t token) const {
        return token + kUnits * kChunkKeys > end_of(0) ||
               (p_.window > 0 && token < now_.keys.end - p_.window);
    }
    // Of the keys that a query sees.
    __device__ __forceinline__ int32_t end_of(int32_t query) const {
        return p_.all_keys ? now_.keys.end : now_.keys.end - p_.n_queries + 1 + query;
    }

    __device__ __forceinline__ void weigh_keys(int32_t token, typename State::Weights& weights) {
        typename State::Scores scores = {};
        if constexpr (Pages::kCodes)
            weigh_codes(token, scores, weights);
        else if constexpr (Pages::kNumbers)
            weigh_numbers(token, scores, weights);
        else
            weigh_floats(token, scores, weights);
    }
    __device__ __forceinline__ void weigh_codes(int32_t token, typename State::Scores& scores,
                                                typename State::Weights& weights) {
        with_bits(p_.k_bits, [&]<int kBits>() {
            state_.template add_scores<kBits>(slots_, k_table_, q_, scores);
        });
        const float k_octaves = -static_cast<float>(codec::hot::octaves(p_.k_bits));
        uint32_t v_units[kUnits], top = 0;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
            const uint32_t scales =
                slots_[u] + plan_.slot_scales + first_token(threadIdx.x % 32 / 4);
            const uint32_t k_units = load_shared(scales);
            scale_scores(scores[u], [&](int i) { return scale_of(k_units, i, k_octaves); });
            v_units[u] = load_shared(scales + kChunkTokens);
        }
        weigh(token, scores,
              [&](int u, int32_t first) { v_units[u] = seen_of(first, v_units[u]); });
#pragma unroll
        for (const uint32_t units : v_units)
#pragma unroll
            for (int i = 0; i < 4; ++i) top = max(top, units >> (8 * i) & 0xff);
        raise_unit(static_cast<int32_t>(__reduce_max_sync(0xffffffff, top)));
        const float octaves = kWeightOctaves - static_cast<float>(state_.v_unit) * 0.0625f;
        pack_weights(scores, weights,
                     [&](int u, int i) { return scale_of(v_units[u], i, octaves); });
    }
    __device__ __forceinline__ void weigh_floats(int32_t token, typename State::Scores& scores,
                                                 typename State::Weights& weights) {
        with_levels([&](auto levels) {
            state_.template add_scores<kFloatBits>(slots_, levels, q_, scores);
        });
        if (plan_.has_token_scales) return weigh_scaled(token, scores, weights);
#pragma unroll
        for (auto& chunk : scores) scale_scores(chunk, [&](int) { return score_norm_; });
        weigh(token, scores, [](int, int32_t) {});
        pack_weights(scores, weights, [](int, int) { return 1.0f; });
    }
    // Scores of 8-bit floats with a scale a token.
    __device__ __forceinline__ void weigh_scaled(int32_t token, typename State::Scores& scores,
                                                 typename State::Weights& weights) {
        uint64_t v_scales[kUnits];  // f16 of four tokens
        float top = 0;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
            const uint32_t at =
                slots_[u] + plan_.slot_scales + 2 * first_token(threadIdx.x % 32 / 4);
            const uint64_t k_scales = load_scales(at);
            v_scales[u] = load_scales(at + kFloatScaleBytes);
            scale_scores(scores[u], [&](int i) { return score_norm_ * f16_at(k_scales, i); });
        }
        weigh(token, scores,
              [&](int u, int32_t first) { v_scales[u] = seen_of(first, v_scales[u]); });
#pragma unroll
        for (const uint64_t scales : v_scales)
#pragma unroll
            for (int i = 0; i < 4; ++i) top = fmaxf(top, f16_at(scales, i));
        raise_unit(
            float_scale_unit(__uint_as_float(__reduce_max_sync(0xffffffff, __float_as_uint(top)))));
        const float unit = exp2_fast(kWeightOctaves + kFloatScaleOctaves -
                                     static_cast<float>(state_.v_unit) * 0.0625f);
        pack_weights(scores, weights, [&](int u, int i) { return f16_at(v_scales[u], i) * unit; });
    }
    __device__ __forceinline__ void weigh_numbers(int32_t token, typename State::Scores& scores,
                                                  typename State::Weights& weights) {
        const bool bf16 = p_.pages_hold == PagesHold::bf16;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
            if (bf16)
                score_numbers<kHeadDim, kTiles, true>(slots_[u], q_, scores[u]);
            else
                score_numbers<kHeadDim, kTiles, false>(slots_[u], q_, scores[u]);
            scale_scores(scores[u], [&](int) { return score_norm_; });
        }
        weigh(token, scores, [](int, int32_t) {});
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
#pragma unroll
            for (int n = 0; n < kTiles; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    weights[u][n][i / 2][i % 2] = transpose_8x8(number_pair(
                        bf16, scores[u][n][i / 2][i % 2 * 2], scores[u][n][i / 2][i % 2 * 2 + 1]));
    }

    __device__ __forceinline__ void add_values(int32_t token,
                                               const typename State::Weights& weights) {
        if constexpr (Pages::kCodes) {
            with_bits(p_.v_bits, [&]<int kBits>() {
                state_.template add_values<kBits>(slots_, plan_.slot_values, v_table_, weights);
            });
            return;
        }
        if (hides(token)) {
#pragma unroll
            for (int u = 0; u < kUnits; ++u) clear_unseen(token + u * kChunkKeys, slots_[u]);
            __syncwarp();
        }
        if constexpr (Pages::kNumbers) {
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
                if (p_.pages_hold == PagesHold::bf16)
                    add_numbers<kHeadDim, kTiles, true>(slots_[u], weights[u], state_.out);
                else
                    add_numbers<kHeadDim, kTiles, false>(slots_[u], weights[u], state_.out);
            }
        } else {
            with_levels([&](auto levels) {
                state_.template add_values<kFloatBits>(slots_, plan_.slot_values, levels, weights);
            });
        }
    }
    // Values of tokens that nobody sees may be anything, also what is no number times no weight.
    __device__ __forceinline__ void clear_unseen(int32_t first, uint32_t slot) const {
        constexpr uint32_t kBytes = Pages::kNumbers ? 2 * kHeadDim : kHeadDim;
        const int32_t key = first + lane();
        if (key >= now_.keys.begin && key < now_.keys.end) return;
        const auto token = static_cast<uint32_t>(lane());
        uint32_t row = slot + plan_.slot_values;
        if constexpr (Pages::kNumbers)
            row += token * NumberSlot<kHeadDim>::kValueStride;
        else
            row += Map::v_piece(kFloatBits, token / 8) * kVectorBytes + token % 8 * kBytes;
#pragma unroll 1
        for (uint32_t i = 0; i < kBytes; i += 16) clear_shared_16(row + i);
    }

    template <class Run>
    __device__ __forceinline__ void with_levels(Run run) const {
        if (p_.pages_hold == PagesHold::fp8_e5m2)
            run(E5m2Levels{});
        else
            run(E4m3Levels{});
    }
    static __device__ __forceinline__ uint64_t load_scales(uint32_t at) {
        return uint64_t{load_shared(at + 4)} << 32 | load_shared(at);
    }
    static __device__ __forceinline__ float f16_at(uint64_t four, int i) {
        return __half2float(__ushort_as_half(static_cast<uint16_t>(four >> (16 * i))));
    }

    // Score i of a lane's tile: token row i / 2, query row 2t + i % 2.
    using ChunkScores = float[kTiles][2][4];

    // scale(i): of the lane's token i of four.
    template <class Scale>
    __device__ __forceinline__ void scale_scores(ChunkScores& s, Scale scale_at) const {
#pragma unroll
        for (int of_four = 0; of_four < 4; ++of_four) {
            const float scale = scale_at(of_four);
#pragma unroll
            for (int n = 0; n < kTiles; ++n) {
                s[n][of_four / 2][of_four % 2 * 2] *= scale;
                s[n][of_four / 2][of_four % 2 * 2 + 1] *= scale;
            }
        }
    }
    __device__ __forceinline__ void cap_scores(typename State::Scores& s) const {
        if (p_.softcap <= 0) return;
#pragma unroll
        for (auto& chunk : s)
#pragma unroll
            for (auto& rows : chunk)
#pragma unroll
                for (auto& tile : rows)
#pragma unroll
                    for (float& x : tile) x = tanhf(x) * p_.softcap * kLog2e;
    }

    // Scores to weights. hide_more(u, first): chunk u has tokens that not all queries see, and
    // `first` is the lane's first one.
    template <class HideMore>
    __device__ __forceinline__ void weigh(int32_t token, typename State::Scores& scores,
                                          HideMore hide_more) {
        cap_scores(scores);
        if (hides(token)) {
#pragma unroll
            for (int u = 0; u < kUnits; ++u) hide_more(u, hide(token + u * kChunkKeys, scores[u]));
        }
        state_.weigh(scores);
    }
    // Takes away what a query does not see. Returns the lane's first token.
    __device__ int32_t hide(int32_t token, ChunkScores& s) const {
        const uint32_t g = threadIdx.x % 32 / 4;
        const int32_t first = token + static_cast<int32_t>(Pages::kNumbers ? g : first_token(g));
        const RowsOfPass rows = this->rows();
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const int32_t row = kRowsOfTile * n + 2 * (lane() % 4) + c;
                const int32_t end = end_of(rows.query_of(row));
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int32_t key = first + (Pages::kNumbers ? 8 * i : i);
                    if (key >= end || (p_.window > 0 && key < end - p_.window))
                        s[n][i / 2][c + i % 2 * 2] = kNoScore;
                }
            }
        }
        return first;
    }
    // Of what belongs to the lane's four tokens from `first` on, those that somebody sees: not what
    // lies before the first key, which nobody may have brought, and behind the last.
    template <class Four>
    __device__ Four seen_of(int32_t first, Four four) const {
        constexpr int32_t kBits = 2 * sizeof(Four);
        const int32_t early = min(max(now_.keys.begin - first, 0), 4);
        const int32_t late = min(max(first + 4 - now_.keys.end, 0), 4);
        return early + late >= 4
                   ? 0
                   : four >> (kBits * early) << (kBits * (early + late)) >> (kBits * late);
    }
    __device__ __forceinline__ void raise_unit(int32_t unit) {
        if (unit > state_.v_unit) state_.change_unit(unit);
    }

    // Weights times scales of values, scale_at(u, i) of chunk u and the lane's token i, in units
    // that f16 holds, as the products' second operand.
    template <class Scale>
    __device__ __forceinline__ void pack_weights(const typename State::Scores& weights,
                                                 typename State::Weights& packed, Scale scale_at) {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float scale = scale_at(u, i);
#pragma unroll
                for (int n = 0; n < kTiles; ++n)
                    packed[u][n][i / 2][i % 2] =
                        transpose_8x8(f16_pair(weights[u][n][i / 2][i % 2 * 2] * scale,
                                               weights[u][n][i / 2][i % 2 * 2 + 1] * scale));
            }
        }
    }

    __device__ DecodeWorkspace work() const { return divide_workspace(plan_); }
    __device__ float* partial_at(int32_t slot) const {
        return work().partials + slot * partial_floats(kRows, kHeadDim);
    }

    // What this warp has of the segment, to the workspace; from there out, if nobody else has any.
    __device__ void leave_partial() {
        const Segment& segment = now_.segment;
        // A worker's last slot is free before its last segment.
        float* own = partial_at(segment.whole ? shared_.list.slot_of(worker_, true) : segment.slot);
        leave_sums(own);
        if (!segment.whole) {
            if (lane() == 0) list_head(segment);
            return;
        }
        __syncwarp();
        using Rows = RowsOfWarp<kHeadDim>;
        const RowsOfPass rows = this->rows();
#pragma unroll 1
        for (int32_t row = Rows::row(); row < kRows; row += Rows::kAtOnce) {
            RowSums sums = merge_row<kHeadDim, kRows, 1>(1, [&](int32_t) { return own; }, row);
            write_row<kHeadDim>(plan_, rows, row, sums.eight, sums.top, sums.weight);
        }
        __syncwarp();
    }

    // For merge_heads(): by the first of this block's workers that has a part of the head.
    __device__ void list_head(const Segment& segment) {
        const WorkList& list = shared_.list;
        const int32_t begin = list.first_tile_of(segment.request, segment.head);
        const int32_t block = static_cast<int32_t>(blockIdx.x) * shared_.block_workers;
        const int32_t first_worker = list.worker_of(begin), first = max(first_worker, block);
        if (first != worker_) return;
        const int32_t last_worker = list.worker_of(begin + list.tiles_of_head(segment.request) - 1);
        const int32_t last = min(last_worker, block + shared_.block_workers - 1);
        shared_.heads[atomicAdd(&shared_.n_heads, 1)] = {
            segment.request, segment.head, first_worker, last_worker, first, last, false};
    }

    __device__ void leave_sums(float* to) const {
        float unit = 1;
        if (Pages::kCodes || plan_.has_token_scales)
            unit = exp2_fast(static_cast<float>(state_.v_unit) * 0.0625f - plan_.v_octaves -
                             kWeightOctaves);
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
                leave_row_sums(to + row * kHeadDim, n, c, unit);
            }
        }
    }
    __device__ __forceinline__ void leave_row_sums(float* to, int n, int c, float unit) const {
        const auto g = static_cast<uint32_t>(lane()) / 4;
        const auto& tile = state_.out[n];
        if constexpr (Pages::kNumbers) {
#pragma unroll
            for (int i = 0; i < kHeadDim / 16; ++i) {
                to[16 * i + g] = tile[i][c];
                to[16 * i + 8 + g] = tile[i][c + 2];
            }
        } else {
#pragma unroll
            for (int i = 0; i < static_cast<int>(Map::kParts); ++i) {
#pragma unroll
                for (int far = 0; far < 2; ++far) {
                    if (!Map::has_row(g, i, far)) continue;
                    const int at = c + 2 * far;
                    *reinterpret_cast<float4*>(to + Map::value_dim(g, i, 0) + 16 * far) = {
                        tile[4 * i][at] * unit, tile[4 * i + 1][at] * unit,
                        tile[4 * i + 2][at] * unit, tile[4 * i + 3][at] * unit};
                }
            }
        }
    }

    const DecodePlan& plan_;
    const DecodeParams& p_;
    Shared& shared_;
    const int32_t worker_;
    ChunkWalk& now_;
    uint2* const q_;  // [kTiles][steps][32]
    const LevelTable k_table_, v_table_;
    Feed<kHeadDim, kUnits, Pages> feed_;
    typename State::Slots slots_;
    State state_;
    float score_norm_ = 0;  // of floats: what scores of the segment are multiplied by
};

template <int kHeadDim, int kTiles, class Pages>
constexpr size_t kDecodeSharedBytes =
    (sizeof(DecodeShared<kHeadDim, kTiles, Pages>) + 127) / 128 * 128;

template <int kHeadDim, int kTiles, class Pages>
__global__ void __launch_bounds__((32 * DecodeShared<kHeadDim, kTiles, Pages>::kWarps), 1)
    decode_kernel(const __grid_constant__ DecodePlan plan) {
    using Shared = DecodeShared<kHeadDim, kTiles, Pages>;
    Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared() + plan.table_bytes);
    std::byte* slots =
        dynamic_shared() + plan.table_bytes + kDecodeSharedBytes<kHeadDim, kTiles, Pages>;
    const uint32_t warp = threadIdx.x / 32;
    if constexpr (Pages::kCodes) fill_table(plan.p.k_bits, plan.p.v_bits);
    wait_for_kernels_before();
    if (threadIdx.x == 0) {
        const DecodeHead& head = *divide_workspace(plan).head;
        shared.list = head.list;
        shared.block_workers = head.block_workers;
        shared.n_heads = 0;
    }
    __syncthreads();
    const int32_t each = shared.block_workers;
    const int32_t worker = static_cast<int32_t>(blockIdx.x) * each + static_cast<int32_t>(warp);
    if (static_cast<int32_t>(warp) < each && worker < shared.list.busy()) {
        if (threadIdx.x % 32 == 0) *shared.walk(warp, 0) = ChunkWalk(shared.list, worker);
        __syncwarp();
        DecodeWarp<kHeadDim, kTiles, Pages>(plan, &shared, shared_address(slots), warp).run();
    }
    __syncthreads();
    merge_heads<kHeadDim, kRowsOfTile * kTiles, Shared::kWarps>(plan, shared.list, each,
                                                                shared.heads, shared.n_heads);
}

template <int kHeadDim>
void plan_codes(DecodePlan& plan) {
    using Map = ChunkMap<kHeadDim>;
    const DecodeParams& p = plan.p;
    const codec::hot::Shape shape = {p.k_bits, p.v_bits, kHeadDim,
                                     static_cast<uint32_t>(p.block_tokens)};
    plan.table_bytes = has_table(p.k_bits) || has_table(p.v_bits) ? kTableBytes : 0;
    plan.slot_bytes = Map::slot_bytes(p.k_bits, p.v_bits);
    plan.slot_values = Map::v_at(p.k_bits);
    plan.slot_scales = Map::scales_at(p.k_bits, p.v_bits);
    plan.page_values = static_cast<uint32_t>(codec::hot::v_offset(shape));
    plan.page_k_scales = static_cast<uint32_t>(codec::hot::k_scales_offset(shape));
    plan.page_v_scales = static_cast<uint32_t>(codec::hot::v_scales_offset(shape));
    plan.v_octaves = static_cast<float>(codec::hot::octaves(p.v_bits));
    plan.out_norm = codec::hot::hadamard_norm(codec::hot::hadamard_block(kHeadDim));
    plan.q_norm = score_unit(p) * plan.out_norm;
}
template <int kHeadDim>
void plan_floats(DecodePlan& plan) {
    using Slot = FloatSlot<kHeadDim>;
    const auto tokens = static_cast<uint32_t>(plan.p.block_tokens);
    plan.has_token_scales = plan.p.scaling == codec::fp8::Scaling::token;
    plan.slot_bytes = plan.has_token_scales ? Slot::kBytes : Slot::kScalesAt;
    plan.slot_values = Slot::kValuesAt;
    plan.slot_scales = Slot::kScalesAt;
    plan.page_values = kHeadDim * tokens;
    plan.page_k_scales = 2 * kHeadDim * tokens;
    plan.page_v_scales = plan.page_k_scales + 2 * tokens;
    plan.v_octaves = kFloatScaleOctaves;
}

template <int kHeadDim, int kTiles, class Pages>
DecodePlan plan_decode(const DecodeParams& p, int32_t blocks) {
    using Shared = DecodeShared<kHeadDim, kTiles, Pages>;
    constexpr int32_t kWarps = Shared::kWarps;
    constexpr size_t kRoom = kSharedMax - kDecodeSharedBytes<kHeadDim, kTiles, Pages>;
    DecodePlan plan;
    plan.p = p;
    if (!is_fp8(p.pages_hold) || p.scaling != codec::fp8::Scaling::head)
        plan.p.k_scales = plan.p.v_scales = nullptr;
    plan.codes = Pages::kCodes;
    plan.passes = passes_of(p);
    plan.rows = rows_of_head(p);
    plan.group = p.n_heads / p.kv_heads;
    plan.per_group = reciprocal_of(static_cast<uint32_t>(plan.group));
    plan.workers_max = blocks * kWarps;
    plan.tile_tokens = Shared::kUnits * kChunkKeys;
    plan.block_stride = static_cast<uint32_t>(p.block_stride);
    while (16 << plan.group_shift < p.block_tokens) ++plan.group_shift;
    plan.q_norm = plan.out_norm = 1;
    plan.score_norm = score_unit(p);
    if constexpr (Pages::kCodes) {
        static_assert((kRoom - kTableBytes) / ChunkMap<kHeadDim>::slot_bytes(8, 5) >=
                      4 * Shared::kUnits);
        plan_codes<kHeadDim>(plan);
    } else if constexpr (Pages::kNumbers) {
        static_assert(kRoom / NumberSlot<kHeadDim>::kBytes >= 4 * Shared::kUnits);
        plan.slot_bytes = NumberSlot<kHeadDim>::kBytes;
        plan.slot_values = NumberSlot<kHeadDim>::kValuesAt;
    } else {
        static_assert(kRoom / FloatSlot<kHeadDim>::kBytes >= 4 * Shared::kUnits);
        plan_floats<kHeadDim>(plan);
    }
    // Fewer warps where slots are large, and as many for each of the four schedulers.
    const auto warps =
        static_cast<int32_t>((kRoom - plan.table_bytes) / plan.slot_bytes / Shared::kUnits);
    plan.warps = warps >= kWarps ? kWarps : warps >= 4 ? warps / 4 * 4 : warps;
    return plan;
}

template <int kHeadDim, int kTiles, class Pages>
int launch_decode(const DecodeParams& p, int32_t blocks, CUstream_st* stream) {
    using Shared = DecodeShared<kHeadDim, kTiles, Pages>;
    const DecodePlan plan = plan_decode<kHeadDim, kTiles, Pages>(p, blocks);
    const size_t shared = plan.table_bytes + kDecodeSharedBytes<kHeadDim, kTiles, Pages> +
                          static_cast<size_t>(plan.warps * Shared::kUnits) * plan.slot_bytes;
    const auto kernel = decode_kernel<kHeadDim, kTiles, Pages>;
    static std::atomic<uint64_t> allowed{0};
    if (const int e = allow_shared(reinterpret_cast<const void*>(kernel), &allowed)) return e;
    if (const int e = launch_prepare<kHeadDim, kTiles>(plan, blocks, stream)) return e;
    return launch_dependent(kernel, blocks, 32 * Shared::kWarps, shared, stream, plan);
}

}  // namespace quire::kernels::cuda
