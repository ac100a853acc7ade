// How keys come to a prefill's products: two or four warps for K and as many for V take chunks of
// 32 tokens of their side by turns, each at its own pace. Copies bring codes to slots of the warp
// alone, from where it expands them into a tile when the tile's last readers are done; 16-bit
// numbers go into the tile as they are.
#pragma once

#include "kernels/cuda/attn/prefill_expand.cuh"
#include "kernels/cuda/attn/prefill_plan.h"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/ptx/lane_copy.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"

namespace quire::kernels::cuda {

// A worker's segments in order; its chunks are numbered through all of them.
struct PrefillWalk {
    SegmentWalker walker;
    Segment segment;
    int32_t first = 0, last = 0;              // chunks of the segment
    int32_t token = 0;                        // of chunk 0, had the segment begun before
    int32_t first_group = 0, last_group = 0;  // of 16 tokens, with keys that somebody sees
    KeySpan keys;
    const int32_t* blocks = nullptr;   // of the request
    const std::byte* pages = nullptr;  // block 0's, of the KV head
    bool more = true;

    __device__ PrefillWalk(const WorkList& list, int32_t worker) : walker(list, worker) {}

    __device__ void next(const PrefillPlan& plan, const PrefillItem* items) {
        constexpr auto kGroupTokens = static_cast<int32_t>(codec::hot::kLanes);
        const PrefillParams& p = plan.p;
        more = walker.next(&segment);
        first = last;
        const int32_t each = plan.tile_keys / kChunkKeys;
        last = more ? first + (segment.end - segment.begin) * each : INT32_MAX;
        if (!more) return;
        const PrefillItem item = items[segment.request];
        keys = keys_of(plan, item).span;
        first_group = keys.begin / kGroupTokens;
        last_group = (keys.end - 1) / kGroupTokens;
        blocks = p.blocks + item.request * p.table_stride;
        pages = p.pages + segment.head * p.head_stride;
        token = (first_tile(keys, plan.tile_keys) + segment.begin) * plan.tile_keys -
                first * kChunkKeys;
    }
};

// Tiles that are full, and that nobody reads any more: of K, of V.
struct PrefillShared {
    Barrier full[2][kPrefillStagesMax], empty[2][kPrefillStagesMax];
    WorkList list;
    alignas(16) std::byte walks[1][sizeof(PrefillWalk)];  // of each warp that brings
};
static_assert(sizeof(PrefillShared) + 3 * sizeof(PrefillWalk) <= 1024);
static_assert(sizeof(PrefillShared) + 7 * sizeof(PrefillWalk) <= 2048);

// Where a tile is, and whether its place was used an odd number of times before.
struct TilePlace {
    uint32_t stage = 0, parity = 0;

    __device__ __forceinline__ void next(uint32_t stages) {
        if (++stage < stages) return;
        stage = 0;
        parity ^= 1;
    }
};

template <int kHeadDim, PagesHold kHold, bool kKeys>
class PrefillBringer {
    using Tile = PrefillTile<kHeadDim, kHold>;
    using Map = ChunkMap<kHeadDim>;
    static constexpr int kSide = kKeys ? 0 : 1, kRawSlots = Tile::kRawSlots,
                         kBringers = Tile::kBringers;

 public:
    // tiles_at, raw_at: of shared memory.
    __device__ PrefillBringer(const PrefillPlan& plan, PrefillShared* shared, uint32_t tiles_at,
                              uint32_t raw_at, uint32_t warp)
        : plan_(plan),
          shared_(*shared),
          walk_(*reinterpret_cast<PrefillWalk*>(shared->walks[warp])),
          items_(divide_workspace(plan).items),
          tiles_at_(tiles_at + kSide * Tile::kSideBytes),
          raw_at_(raw_at + (kKeys ? 0 : kBringers * kRawSlots * plan.raw_bytes[0]) +
                  warp % kBringers * kRawSlots * plan.raw_bytes[kSide]),
          chunk_(static_cast<int32_t>(warp % kBringers)) {
        for (int32_t i = 0; i < chunk_ / Tile::kChunks; ++i) place_.next(plan.stages);
        if (lane() == 0) walk_ = PrefillWalk(shared->list, static_cast<int32_t>(blockIdx.x));
        __syncwarp();
    }

    __device__ __forceinline__ void run() {
        more_ = find();
        if constexpr (Tile::kCodes)
            run_codes();
        else
            run_numbers();
    }

 private:
    static __device__ __forceinline__ uint32_t lane() { return threadIdx.x % 32; }

    // Where chunk_ is: lane i knows of group i % 2 of 16 tokens. Groups that nobody sees, which may
    // have no page, are the nearest that somebody does.
    __device__ __forceinline__ bool find() {
        while (chunk_ >= walk_.last) {
            __syncwarp();
            if (lane() == 0) walk_.next(plan_, items_);
            __syncwarp();
        }
        if (!walk_.more) return false;
        const int32_t token = walk_.token + chunk_ * kChunkKeys;
        const int32_t own = token / static_cast<int32_t>(codec::hot::kLanes) +
                            static_cast<int32_t>(threadIdx.x % 2);
        const int32_t group = min(max(own, walk_.first_group), walk_.last_group);
        pages_ = walk_.pages;
        block_ = __ldg(walk_.blocks + (group >> plan_.group_shift));
        index_ = static_cast<uint32_t>(group) & ((1u << plan_.group_shift) - 1);
        seen_ = {walk_.keys.begin - token, walk_.keys.end - token};
        return true;
    }
    __device__ __forceinline__ const std::byte* page(int32_t block) const {
        return pages_ + uint64_t{static_cast<uint32_t>(block)} * plan_.block_stride;
    }
    struct Groups {
        const std::byte* page[2];
        uint32_t index[2];
    };
    __device__ __forceinline__ Groups groups() const {
        Groups of;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            of.page[i] = page(__shfl_sync(0xffffffff, block_, i));
            of.index[i] = __shfl_sync(0xffffffff, index_, i);
        }
        return of;
    }

    // To the tile of the warp's next chunk.
    __device__ __forceinline__ void next_place() {
#pragma unroll
        for (int i = 0; i < kBringers / Tile::kChunks; ++i) place_.next(plan_.stages);
    }

    __device__ __forceinline__ void run_codes() {
        uint32_t brought = 0;
        const auto bring_next = [&] {
            if (more_) {
                bring_codes(raw_at_ + brought % kRawSlots * plan_.raw_bytes[kSide]);
                ++brought;
                chunk_ += kBringers;
                more_ = find();
            }
            end_lot_of_copies();
        };
#pragma unroll 1
        for (int i = 0; i < kRawSlots - 1; ++i) bring_next();
#pragma unroll 1
        for (uint32_t done = 0; done < brought; ++done) {
            bring_next();
            wait_for_lots_but<kRawSlots - 1>();
            __syncwarp();
            // The other warp's tile was there in between: of a phase two ahead a barrier cannot
            // tell that the one before it has not ended. (With two stages or more it has.)
            if (Tile::kChunks == 1 && plan_.stages == 1 && done > 0)
                shared_.empty[kSide][0].wait(place_.parity);
            expand(raw_at_ + done % kRawSlots * plan_.raw_bytes[kSide]);
            next_place();
        }
    }
    __device__ __forceinline__ void bring_codes(uint32_t raw) const {
        __syncwarp();
        const Groups of = groups();
        const uint32_t side = kKeys ? 0 : plan_.page_values;
        const auto tokens = static_cast<uint32_t>(plan_.p.block_tokens);
        with_bits(kKeys ? plan_.p.k_bits : plan_.p.v_bits, [&]<int kBits>() {
            copy_side<kHeadDim, kBits, kKeys>(opaque(lane()), tokens, [&](const VectorCopy& copy) {
                const bool second = copy.group != 0;
                const std::byte* from =
                    (second ? of.page[1] : of.page[0]) +
                    (side + copy.from + (second ? of.index[1] : of.index[0]) * copy.step);
                copy_16(raw + copy.to + copy.to_constant, from + copy.from_constant);
            });
        });
        if (lane() < 2)
            copy_16(raw + plan_.raw_scales[kSide] + lane() * 16,
                    page(block_) + plan_.page_scales[kSide] + index_ * 16);
    }
    __device__ __forceinline__ void expand(uint32_t raw) {
        const auto of_tile = static_cast<uint32_t>(threadIdx.x / 32 % Tile::kChunks);
        const uint32_t tile = tiles_at_ + place_.stage * 2 * Tile::kSideBytes;
        const uint32_t scales = raw + plan_.raw_scales[kSide];
        const LevelTable table(kKeys, kKeys ? plan_.p.k_bits : plan_.p.v_bits);
        shared_.empty[kSide][place_.stage].wait(place_.parity ^ 1);
        with_bits(kKeys ? plan_.p.k_bits : plan_.p.v_bits, [&]<int kBits>() {
            if constexpr (kKeys)
                expand_keys<kHeadDim, kBits>(raw, scales, tile + of_tile * kChunkKeys * 64,
                                             Tile::kKeys * 64, table);
            else
                expand_values<kHeadDim, kBits>(raw, scales, tile + of_tile * kHeadDim * 64, table);
        });
        filled(place_.stage);
    }
    __device__ __forceinline__ void filled(uint32_t stage) {
        fence_shared_writes();
        __syncwarp();
        if (lane() == 0) shared_.full[kSide][stage].arrive();
    }

    __device__ __forceinline__ void run_numbers() {
        bool any_before = false;
        uint32_t before = 0;  // the place of the chunk that was brought last
        KeySpan seen_before;
#pragma unroll 1
        while (more_ || any_before) {
            const KeySpan seen = seen_;
            const uint32_t stage = place_.stage;
            const bool brings = more_;
            if (brings) {
                shared_.empty[kSide][stage].wait(place_.parity ^ 1);
                bring_numbers_to(tiles_at_ + stage * 2 * Tile::kSideBytes);
                next_place();
                chunk_ += kBringers;
                more_ = find();
            }
            end_lot_of_copies();
            if (any_before) {
                wait_for_lots_but_one();
                __syncwarp();
                if constexpr (!kKeys) clear(tiles_at_ + before * 2 * Tile::kSideBytes, seen_before);
                filled(before);
            }
            any_before = brings;
            before = stage;
            seen_before = seen;
        }
    }
    // K: rows are dimensions, V: tokens.
    __device__ __forceinline__ void bring_numbers_to(uint32_t tile) const {
        __syncwarp();
        const Groups of = groups();
        const auto tokens = static_cast<uint32_t>(plan_.p.block_tokens);
        const auto half = static_cast<uint32_t>(chunk_ % 2);  // of the tile's tokens
        if constexpr (kKeys) {
            const uint32_t row = lane() / 4, vector = lane() % 4;
            const std::byte* from = (vector < 2 ? of.page[0] : of.page[1]) +
                                    (vector < 2 ? of.index[0] : of.index[1]) * 32 +
                                    vector % 2 * 16 + uint64_t{row} * tokens * 2;
            const uint32_t to = tile + row * 128 + ((half * 4 + vector) ^ row) * 16;
#pragma unroll
            for (uint32_t dim = 0; dim < kHeadDim; dim += 8) {
                copy_16(to + dim * 128, from);
                from += uint64_t{tokens} * 16;
            }
        } else {
            constexpr uint32_t kVectors = kHeadDim / 8;
#pragma unroll
            for (uint32_t i = 0; i < kVectors; ++i) {
                const uint32_t at = i * 32 + lane(), token = at / kVectors, vector = at % kVectors;
                const uint32_t row = half * kChunkTokens + token;
                const std::byte* from =
                    (token < 16 ? of.page[0] : of.page[1]) + uint64_t{kHeadDim} * tokens * 2 +
                    ((token < 16 ? of.index[0] : of.index[1]) * 16 + token % 16) * (kHeadDim * 2) +
                    vector * 16;
                copy_16(value_vector(tile, row, vector), from);
            }
        }
    }
    static __device__ __forceinline__ uint32_t value_vector(uint32_t tile, uint32_t row,
                                                            uint32_t vector) {
        return tile + vector / 8 * (64 * 128) + row * 128 + (vector % 8 ^ row % 8) * 16;
    }
    // Values of tokens that nobody sees may be anything, also what is no number times no weight.
    __device__ __forceinline__ void clear(uint32_t tile, const KeySpan& seen) const {
        const auto token = static_cast<int32_t>(lane());
        if (token >= seen.begin && token < seen.end) return;
        const uint32_t half = static_cast<uint32_t>(threadIdx.x / 32 % 2);
#pragma unroll 1
        for (uint32_t vector = 0; vector < kHeadDim / 8; ++vector)
            clear_shared_16(value_vector(tile, half * kChunkTokens + lane(), vector));
    }

    const PrefillPlan& plan_;
    PrefillShared& shared_;
    PrefillWalk& walk_;
    const PrefillItem* const items_;
    const uint32_t tiles_at_, raw_at_;
    TilePlace place_;  // of the next chunk to be filled in
    int32_t chunk_;    // that is found
    bool more_ = false;
    const std::byte* pages_ = nullptr;
    int32_t block_ = 0;
    uint32_t index_ = 0;
    KeySpan seen_;  // of the chunk, from its first token
};

}  // namespace quire::kernels::cuda
