// One warpgroup's part of a prefill: 64 query rows of an item, over tiles of keys that others
// bring.
//
// Scores of the next tile are multiplied before values of this one, so that products go on while
// weights of the next one are worked out. Lane 4g + t of warp w has rows 16w + g and + 8, of each 8
// columns 2t and 2t + 1.
#pragma once

#include "kernels/cuda/attn/prefill_bring.cuh"
#include "kernels/cuda/attn/prefill_rows.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace quire::kernels::cuda {

template <int kHeadDim, PagesHold kHold>
class PrefillMultiplier {
    using Tile = PrefillTile<kHeadDim, kHold>;
    using Kind = WgmmaKind<kHold == PagesHold::bf16, !Tile::kCodes>;
    static constexpr int kKeys = Tile::kKeys;
    static constexpr int kSteps = kHeadDim / 16;
    // Queries as registers, where there are enough: the other reads of shared memory go on
    // meanwhile.
    static constexpr bool kQueryRegisters = kHeadDim <= (Tile::kCodes ? 96 : 128);

 public:
    __device__ PrefillMultiplier(const PrefillPlan& plan, PrefillShared* shared,
                                 uint32_t queries_at, uint32_t tiles_at)
        : plan_(plan),
          shared_(*shared),
          group_(threadIdx.x / 128),
          queries_at_(queries_at + group_ * Tile::kQueryBytes),
          tiles_at_(tiles_at) {}

    __device__ __forceinline__ void run() {
        SegmentWalker walker(shared_.list, static_cast<int32_t>(blockIdx.x));
        Segment segment;
        if (threadIdx.x == 0) divide_workspace(plan_).shares[blockIdx.x].last_worker = -1;
#pragma unroll 1
        while (walker.next(&segment)) {
            begin(segment);
            multiply(segment.end - segment.begin);
            end(segment);
        }
    }

 private:
    static __device__ __forceinline__ int32_t lane() {
        return static_cast<int32_t>(threadIdx.x % 32);
    }
    __device__ __forceinline__ int32_t first_row() const {  // of the warp's, in the item
        return static_cast<int32_t>(threadIdx.x / 32) * 16;
    }

    __device__ __forceinline__ void begin(const Segment& segment) {
        const PrefillItem item = divide_workspace(plan_).items[segment.request];
        const ItemKeys keys = keys_of(plan_, item);
        const auto end_of = [&](int32_t row) {
            return keys.end_of(min(item.first_row + first_row() + row, keys.rows - 1), plan_.group);
        };
        end_[0] = end_of(lane() / 4);
        end_[1] = end_of(lane() / 4 + 8);
        first_end_ = end_of(0);
        last_end_ = end_of(15);
        key_ = (first_tile(keys.span, kKeys) + segment.begin) * kKeys;
        load_queries<kHeadDim, kHold>(plan_, item, segment.head, queries_at_);
        fence_shared_writes();
        meet(1 + static_cast<int>(group_), 128);
        if constexpr (kQueryRegisters) take_queries();
#pragma unroll
        for (float& x : out_) x = 0;
        max_[0] = max_[1] = kNoScore;
        sum_[0] = sum_[1] = 0;
    }

    // As the first operand of the products.
    __device__ __forceinline__ void take_queries() {
        const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const uint32_t row = queries_at_ + (threadIdx.x / 32 % 4 * 16 + g) * 64 + t * 4;
#pragma unroll
        for (uint32_t step = 0; step < kSteps; ++step)
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i)  // rows g, g + 8; then the next 8 dimensions
                queries_[step][i] = load_shared(row + step / 2 * (64 * 64) + i % 2 * (8 * 64) +
                                                (((step % 2 * 2 + i / 2) ^ g / 2 % 4) << 4));
    }

    // The next n tiles, as they are brought. Products are queued and waited for in one round of the
    // loop: across rounds the compiler would put them in a row.
    __device__ __forceinline__ void multiply(int32_t n) {
        float scores[kKeys / 2];
        queue_scores(scores);
        wgmma_wait<0>();
        pin(scores);
        release_keys();
        weigh(scores);
        pack(scores);
#pragma unroll 1
        for (int32_t i = 1; i < n; ++i) {
            queue_scores(scores);
            queue_values();
            wgmma_wait<1>();
            pin(scores);
            release_keys();
            const bool raised = weigh(scores);
            wgmma_wait<0>();
            pin(out_);
            release_values();
            if (raised) scale_sums();
            pack(scores);
        }
        queue_values();
        wgmma_wait<0>();
        pin(out_);
        release_values();
    }
    __device__ __forceinline__ void release_keys() {
        release(0, keys_);
        keys_.next(plan_.stages);
    }
    __device__ __forceinline__ void release_values() {
        release(1, values_);
        values_.next(plan_.stages);
    }
    __device__ __forceinline__ void release(int side, const TilePlace& at) {
        if (lane() == 0) shared_.empty[side][at.stage].arrive();
    }
    __device__ __forceinline__ uint32_t tile_at(int side, const TilePlace& at) const {
        return tiles_at_ + (at.stage * 2 + static_cast<uint32_t>(side)) * Tile::kSideBytes;
    }

    __device__ __forceinline__ void queue_scores(float (&s)[kKeys / 2]) {
        shared_.full[0][keys_.stage].wait(keys_.parity);
        const uint32_t tile = tile_at(0, keys_);
        const uint64_t b = Tile::kCodes ? narrow_tile_by_rows(tile) : tiles_by_columns(tile);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            const auto pair = static_cast<uint64_t>(step / 2);
            const uint64_t second = step % 2 * kNextK;
            const uint64_t of_step = b + (Tile::kCodes ? pair * (kKeys * 64 >> 4) + second
                                                       : static_cast<uint64_t>(step) * kNextRows);
            if constexpr (kQueryRegisters) {
                wgmma_64<Kind>(s, queries_[step], of_step, step > 0);
            } else {
                const uint64_t a =
                    narrow_tile_by_rows(queries_at_) + pair * (64 * 64 >> 4) + second;
                if constexpr (kKeys == 64)
                    wgmma_64<Kind>(s, a, of_step, step > 0);
                else
                    wgmma_32<Kind>(s, a, of_step, step > 0);
            }
        }
        wgmma_commit();
    }
    __device__ __forceinline__ void queue_values() {
        shared_.full[1][values_.stage].wait(values_.parity);
        const uint32_t tile = tile_at(1, values_);
        const uint64_t first = Tile::kCodes ? narrow_tile_by_rows(tile) : tiles_by_columns(tile);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            const auto next = static_cast<uint64_t>(step);
#pragma unroll
            for (int piece = 0; piece < (kHeadDim + 63) / 64; ++piece) {
                const auto before = static_cast<uint64_t>(piece);
                const uint64_t b =
                    first + (Tile::kCodes ? next / 2 * (kHeadDim * 64 >> 4) +
                                                before * (64 * 64 >> 4) + next % 2 * kNextK
                                          : before * (kTileBytes >> 4) + next * kNextRows);
                float* c = out_ + 32 * piece;
                if (64 * piece + 64 <= kHeadDim)
                    wgmma_64<Kind>(*reinterpret_cast<float(*)[32]>(c), weights_[step], b);
                else
                    wgmma_32<Kind>(*reinterpret_cast<float(*)[16]>(c), weights_[step], b);
            }
        }
        wgmma_commit();
    }

    // Takes away what a query does not see.
    __device__ __forceinline__ void hide(float (&s)[kKeys / 2]) const {
        const int32_t t = lane() % 4, window = plan_.p.window;
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
            const int32_t column = i / 4 * 8 + (Tile::kCodes ? t + i % 2 * 4 : 2 * t + i % 2);
            const int32_t key = key_ + column, end = end_[i / 2 % 2];
            if (key >= end || (window > 0 && key < end - window)) s[i] = kNoScore;
        }
    }
    // Scores of the tile at key_ to weights, in units of max_. True: sums have to follow, by keep_.
    __device__ __forceinline__ bool weigh(float (&s)[kKeys / 2]) {
        float unit = Tile::kCodes ? 1.0f : plan_.score_norm;
        if (plan_.p.softcap > 0) {
#pragma unroll
            for (float& x : s) x = tanhf(x * unit) * plan_.p.softcap * kLog2e;
            unit = 1;
        }
        if (key_ + kKeys > first_end_ || (plan_.p.window > 0 && key_ < last_end_ - plan_.p.window))
            hide(s);
        key_ += kKeys;
        float top[2] = {kNoScore, kNoScore};
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], s[i]);
        top[0] *= unit;
        top[1] *= unit;
        const bool raises = __any_sync(
            0xffffffff, top[0] > max_[0] + kSlackOctaves || top[1] > max_[1] + kSlackOctaves);
        if (raises) raise(top);
        float base[2], more[2] = {0, 0};
#pragma unroll
        for (int r = 0; r < 2; ++r) base[r] = max_[r] == kNoScore ? 0.0f : max_[r];
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
            s[i] = exp2_fast(fmaf(s[i], unit, -base[i / 2 % 2]));
            more[i / 2 % 2] += s[i];
        }
        sum_[0] += more[0];
        sum_[1] += more[1];
        return raises;
    }
    __device__ __forceinline__ void raise(float (&top)[2]) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 1));
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 2));
            const float largest = fmaxf(max_[r], top[r]);
            keep_[r] = exp2_fast(max_[r] - (largest == kNoScore ? 0.0f : largest));
            max_[r] = largest;
            sum_[r] *= keep_[r];
        }
    }
    __device__ __forceinline__ void scale_sums() {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) out_[i] *= keep_[i / 2 % 2];
    }
    // As the first operand of the products.
    __device__ __forceinline__ void pack(const float (&s)[kKeys / 2]) {
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i)
            weights_[i / 4][i % 4] = Kind::kBf16 ? number_pair(true, s[2 * i], s[2 * i + 1])
                                                 : f16_pair(s[2 * i], s[2 * i + 1]);
    }

    // What the block has of the item, to the workspace; from there out, if nobody else has any.
    __device__ __forceinline__ void end(const Segment& segment) {
        constexpr int kBarrier = 1 + kPrefillGroups, kThreads = 128 * kPrefillGroups;
        const PrefillWorkspace work = divide_workspace(plan_);
        // A worker's last slot is free before its last segment.
        const int32_t slot = segment.whole
                                 ? shared_.list.slot_of(static_cast<int32_t>(blockIdx.x), true)
                                 : segment.slot;
        float* own = work.partials + slot * prefill_partial_floats(kHeadDim);
        leave_sums(own);
        if (!segment.whole) {
            if (threadIdx.x == 0 && segment.begin == 0) work.shares[blockIdx.x] = share_of(segment);
            return;
        }
        __threadfence_block();
        meet(kBarrier, kThreads);
        write_rows<kHeadDim, 4 * kPrefillGroups>(plan_, work.items[segment.request], segment.head,
                                                 {0, kPrefillRows}, 1,
                                                 [&](int32_t) { return own; });
        meet(kBarrier, kThreads);
    }
    __device__ PrefillShare share_of(const Segment& segment) const {
        const WorkList& list = shared_.list;
        const int32_t first = list.first_tile_of(segment.request, segment.head);
        return {segment.request, segment.head,
                list.worker_of(first + list.tiles_of_head(segment.request) - 1)};
    }
    __device__ __forceinline__ void leave_sums(float* to) {
        const int32_t g = lane() / 4, t = lane() % 4;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int32_t row = first_row() + g + 8 * r;
            float sum = sum_[r];
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            if (t == 0) {
                to[kPrefillRows * kHeadDim + row] = max_[r];
                to[kPrefillRows * (kHeadDim + 1) + row] = sum;
            }
            float* of_row = to + row * kHeadDim + 2 * t;
#pragma unroll
            for (int i = 0; i < kHeadDim / 8; ++i)
                *reinterpret_cast<float2*>(of_row + 8 * i) = {out_[4 * i + 2 * r],
                                                              out_[4 * i + 2 * r + 1]};
        }
    }

    const PrefillPlan& plan_;
    PrefillShared& shared_;
    const uint32_t group_, queries_at_, tiles_at_;
    int32_t end_[2];                // of the keys that the lane's rows see
    int32_t first_end_, last_end_;  // of the warp's first and last row
    int32_t key_ = 0;               // the first of the tile
    TilePlace keys_, values_;       // to be multiplied next
    float out_[kHeadDim / 2];
    float max_[2], sum_[2], keep_[2];
    uint32_t queries_[kQueryRegisters ? kSteps : 1][4];
    uint32_t weights_[kKeys / 16][4];
};

}  // namespace quire::kernels::cuda
