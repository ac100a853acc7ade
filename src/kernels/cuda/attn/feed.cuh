// How keys come to a warp of a decode: through slots of its own in shared memory, filled by copies
// that nobody waits for but who reads the slot. Keys and values of a slot come and are read apart:
// while a warp reads values, the next keys are on their way to where the last ones were, and while
// it reads those, the next values. So at most two lots of copies are under way, and only the
// warp's own: no barrier but the warp's.
//
// Bulk copies were tried: a piece of a plane each, ten to twenty a chunk. A warp issues them one
// after the other, ten instructions each, and was slower than with a thread for every 16 bytes.
#pragma once

#include "kernels/cuda/attn/floats.cuh"
#include "kernels/cuda/attn/numbers.cuh"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/ptx/lane_copy.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {

inline constexpr auto kGroupTokens = static_cast<int32_t>(codec::hot::kLanes);

// A worker's segments in order. Its chunks are numbered through all of them.
struct ChunkWalk {
    SegmentWalker walker;
    Segment segment;
    int32_t first = 0, last = 0;              // chunks of the segment
    int32_t token = 0;                        // of chunk 0, had the segment begun before
    int32_t first_group = 0, last_group = 0;  // of 16 tokens, with keys that somebody sees
    KeySpan keys;
    int32_t kv_head = 0, pass = 0;
    const int32_t* blocks = nullptr;   // of the request
    const std::byte* pages = nullptr;  // block 0's, of the KV head
    bool more = true;

    __device__ ChunkWalk(const WorkList& list, int32_t worker) : walker(list, worker) {}

    __device__ void next(const DecodePlan& plan) {
        const DecodeParams& p = plan.p;
        more = walker.next(&segment);
        first = last;
        const int32_t each = plan.tile_tokens / kChunkKeys;
        last = more ? first + (segment.end - segment.begin) * each : INT32_MAX;
        if (!more) return;
        keys = keys_of(p, segment.request);
        first_group = keys.begin / kGroupTokens;
        last_group = (keys.end - 1) / kGroupTokens;
        kv_head = segment.head / plan.passes;
        pass = segment.head % plan.passes;
        blocks = p.blocks + segment.request * p.table_stride;
        pages = p.pages + kv_head * p.head_stride;
        token = (first_tile(keys, plan.tile_tokens) + segment.begin) * plan.tile_tokens -
                first * kChunkKeys;
    }
};

// Where the chunks of a round are: lane i knows of group i % (2 kUnits) of 16 tokens the block and
// which group of its page it is. Groups before the first key and behind the last, which may have no
// page, are the nearest that have one: nobody sees what is read of them. The block is still on its
// way from memory: nobody looks at it before he has to.
struct FoundGroup {
    const std::byte* pages;  // block 0's, of the KV head
    int32_t block;
    uint32_t index;
};

// One warp's slots, of which it reads kUnits at once.
template <int kHeadDim, int kUnits, class Pages>
class Feed {
    using Map = ChunkMap<kHeadDim>;
    static constexpr uint32_t kScaleVectors = Pages::kCodes ? 1 : 2;  // of a group
    static constexpr uint32_t kGroups = 2 * kUnits;

 public:
    // walk: of this warp alone; in shared memory, as the slots are.
    __device__ Feed(const DecodePlan& plan, ChunkWalk* walk, uint32_t slots_at)
        : plan_(plan), walk_(walk), slots_at_(slots_at) {}

    // At the chunk that was found last.
    __device__ __forceinline__ const ChunkWalk& walk() const { return *walk_; }
    __device__ __forceinline__ uint32_t slot(int u) const {
        return slots_at_ + static_cast<uint32_t>(u) * plan_.slot_bytes;
    }
    // Until the keys of this round have come; then, until its values have, with the next round's
    // keys under way.
    __device__ __forceinline__ void wait() const {
        wait_for_lots_but_one();
        __syncwarp();
    }

    // Where chunks `chunk` and after it are. Chunks come in order. All lanes. False: there are no
    // more.
    __device__ __forceinline__ bool find(int32_t chunk, FoundGroup& found) {
        while (chunk >= walk_->last) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) walk_->next(plan_);
            __syncwarp();
        }
        if (!walk_->more) return false;
        const int32_t first = walk_->token / kGroupTokens + 2 * chunk;
        const int32_t own = first + static_cast<int32_t>(threadIdx.x % kGroups);
        const int32_t group = min(max(own, walk_->first_group), walk_->last_group);
        found.pages = walk_->pages;
        found.block = __ldg(walk_->blocks + (group >> plan_.group_shift));
        QUIRE_DEVICE_CHECK(
            found.block >= 0 && (plan_.p.n_blocks == 0 || found.block < plan_.p.n_blocks),
            "blocks: there is no block of that number");
        found.index = static_cast<uint32_t>(group) & ((1u << plan_.group_shift) - 1);
        return true;
    }

    // Keys of what was found, and all scales. All lanes, which no longer read those. One lot of
    // copies, also where nothing was found.
    __device__ __forceinline__ void bring_keys(bool any, const FoundGroup& found) const {
        if (any) {
            __syncwarp();
            if constexpr (Pages::kCodes || Pages::kNumbers) {
                bring_side<true>(found, plan_.p.k_bits, 0, 0);
            } else {
                bring_float_keys<kHeadDim, kGroups>(
                    slots_at_, plan_.slot_bytes,
                    page(found.pages, found.block) + found.index * kVectorBytes,
                    static_cast<uint32_t>(plan_.p.block_tokens));
            }
            if (Pages::kCodes || plan_.has_token_scales) bring_scales(found);
        }
        end_lot_of_copies();
    }
    __device__ __forceinline__ void bring_values(bool any, const FoundGroup& found) const {
        if (any) {
            __syncwarp();
            bring_side<false>(found, plan_.p.v_bits, plan_.slot_values, plan_.page_values);
        }
        end_lot_of_copies();
    }

 private:
    template <bool kKeys>
    __device__ __forceinline__ void bring_side(const FoundGroup& found, int bits,
                                               uint32_t slot_side, uint32_t page_side) const {
        const auto tokens = static_cast<uint32_t>(plan_.p.block_tokens);
        const std::byte* pages[kGroups];
        uint32_t index[kGroups];
#pragma unroll
        for (uint32_t g = 0; g < kGroups; ++g) {
            const auto from = static_cast<int>(g);
            pages[g] = page(found.pages, __shfl_sync(0xffffffff, found.block, from)) + page_side;
            index[g] = __shfl_sync(0xffffffff, found.index, from);
        }
        if constexpr (Pages::kNumbers) {
#pragma unroll
            for (int u = 0; u < kUnits; ++u)
                bring_numbers<kHeadDim, kKeys>(slot(u), {pages[2 * u], pages[2 * u + 1]},
                                               {index[2 * u], index[2 * u + 1]}, tokens);
        } else {
            const auto bring = [&]<int kBits>() {
                bring_codes<kBits, kKeys>(pages, index, slot_side, tokens);
            };
            if constexpr (Pages::kCodes)
                with_bits(bits, bring);
            else
                bring.template operator()<kFloatBits>();
        }
    }
    template <int kBits, bool kKeys>
    __device__ __forceinline__ void bring_codes(const std::byte* const (&pages)[kGroups],
                                                const uint32_t (&index)[kGroups],
                                                uint32_t slot_side, uint32_t tokens) const {
        const uint32_t lane = opaque(threadIdx.x % 32);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
            const uint32_t to = slot(u) + slot_side;
            copy_side<kHeadDim, kBits, kKeys>(lane, tokens, [&](const VectorCopy& copy) {
                const bool second = copy.group != 0;
                const std::byte* from =
                    (second ? pages[2 * u + 1] : pages[2 * u]) +
                    (copy.from + (second ? index[2 * u + 1] : index[2 * u]) * copy.step);
                copy_16(to + copy.to + copy.to_constant, from + copy.from_constant);
            });
        }
    }
    // Lane i: a vector of the scales of group i % kGroups, first those of K, then those of V.
    __device__ __forceinline__ void bring_scales(const FoundGroup& found) const {
        const uint32_t lane = threadIdx.x % 32, group = lane % kGroups, nth = lane / kGroups;
        if (nth >= 2 * kScaleVectors) return;
        const bool values = nth >= kScaleVectors;
        const uint32_t vector = nth % kScaleVectors;
        const uint32_t in_side = group % 2 * kScaleVectors + vector;
        const uint32_t to = slots_at_ + group / 2 * plan_.slot_bytes + plan_.slot_scales +
                            (in_side + (values ? 2 * kScaleVectors : 0)) * kVectorBytes;
        copy_16(to, page(found.pages, found.block) +
                        ((values ? plan_.page_v_scales : plan_.page_k_scales) +
                         (found.index * kScaleVectors + vector) * kVectorBytes));
    }
    __device__ __forceinline__ const std::byte* page(const std::byte* pages, int32_t block) const {
        return pages + uint64_t{static_cast<uint32_t>(block)} * plan_.block_stride;
    }

    const DecodePlan& plan_;
    ChunkWalk* walk_;
    const uint32_t slots_at_;
};

}  // namespace quire::kernels::cuda
