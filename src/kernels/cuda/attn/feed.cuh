// How keys come to a warp of a decode: through slots of its own in shared memory, filled by copies
// that nobody waits for but who reads the slot. Keys and values of a slot come and are read apart:
// while a warp reads values, the next keys are on their way to where the last ones were, and while
// it reads those, the next values.
//
// Bulk copies were tried: a piece of a plane each, ten to twenty a chunk. A warp issues them one
// after the other, ten instructions each, and was slower than with a thread for every 16 bytes.
#pragma once

#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/ptx/lane_copy.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {

// A worker's segments in order. Its chunks are numbered through all of them.
struct ChunkWalk {
    SegmentWalker walker;
    Segment segment;
    int32_t first = 0, last = 0;  // chunks of the segment
    int32_t token = 0;            // of chunk 0, had the segment begun before
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
        kv_head = segment.head / plan.passes;
        pass = segment.head % plan.passes;
        blocks = p.blocks + segment.request * p.table_stride;
        pages = p.pages + kv_head * p.head_stride;
        token = (first_tile(keys, plan.tile_tokens) + segment.begin) * plan.tile_tokens -
                first * kChunkKeys;
    }
};

// Where a chunk is: the block of its two groups of 16 tokens, or of the first one where a block has
// one group only, and which groups of the page they are. Blocks are still on their way from memory:
// nobody looks at them before he has to.
struct FoundChunk {
    const std::byte* pages;  // block 0's, of the KV head
    int32_t block, next_block;
    uint32_t index[2];
    int32_t keys;  // in it; below 0: it is no chunk of this worker's
};

// One warp's slots, of which it reads kUnits at once.
template <int kHeadDim, int kUnits>
class Feed {
    using Map = ChunkMap<kHeadDim>;
    static constexpr uint32_t kScales = codec::hot::kLanes;  // bytes of a group

 public:
    using Found = FoundChunk[kUnits];

    // full: barriers for keys and values of each unit; walk: of this warp alone; both in shared
    // memory, as the slots are.
    __device__ Feed(const DecodePlan& plan, Barrier* full, ChunkWalk* walk, uint32_t slots_at)
        : plan_(plan), full_(full), walk_(walk), slots_at_(slots_at) {}

    __device__ __forceinline__ uint32_t slot(int u) const {
        return slots_at_ + static_cast<uint32_t>(u) * plan_.slot_bytes;
    }
    __device__ __forceinline__ void wait_keys(uint32_t parity) const { full_[0].wait(parity); }
    __device__ __forceinline__ void wait_values(uint32_t parity) const { full_[1].wait(parity); }

    // Where chunks `chunk` and after it are. Chunks come in order. All lanes.
    __device__ __forceinline__ void find(int32_t chunk, Found& found) {
        while (chunk >= walk_->last) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) walk_->next(plan_);
            __syncwarp();
        }
#pragma unroll
        for (int u = 0; u < kUnits; ++u) find_one(chunk + u, found[u]);
    }

    // Keys of what was found, and all scales. All lanes, which no longer read those.
    __device__ __forceinline__ void bring_keys(const Found& found) const {
        if (found[0].keys < 0) return;
        __syncwarp();
        bring_side<true>(found, plan_.p.k_bits, 0, 0);
        bring_scales(found);
        arrive_after_copies(&full_[0]);
    }
    __device__ __forceinline__ void bring_values(const Found& found) const {
        if (found[0].keys < 0) return;
        __syncwarp();
        bring_side<false>(found, plan_.p.v_bits, plan_.slot_values, plan_.page_values);
        arrive_after_copies(&full_[1]);
    }

 private:
    __device__ __forceinline__ void find_one(int32_t chunk, FoundChunk& found) const {
        found.keys = -1;
        if (!walk_->more) return;
        const int32_t token = walk_->token + chunk * kChunkKeys;
        found.keys = token + kChunkKeys > walk_->keys.begin ? max(walk_->keys.end - token, 0) : 0;
        if (found.keys == 0) return;
        const auto group = static_cast<uint32_t>(token) / codec::hot::kLanes;
        const uint32_t mask = (1u << plan_.group_shift) - 1;
        const int32_t* blocks = walk_->blocks;
        found.pages = walk_->pages;
        found.index[0] = group & mask;
        found.index[1] = found.index[0] + 1;
        found.block = __ldg(blocks + (group >> plan_.group_shift));
        if (plan_.group_shift == 0) {  // behind the last key there may be no page
            const bool is_there = found.keys > static_cast<int32_t>(codec::hot::kLanes);
            found.next_block = __ldg(blocks + group + (is_there ? 1 : 0));
            found.index[1] = 0;
        }
    }

    template <bool kKeys>
    __device__ __forceinline__ void bring_side(const Found& found, int bits, uint32_t slot_side,
                                               uint32_t page_side) const {
        const uint32_t lane = opaque(threadIdx.x % 32);
        const auto tokens = static_cast<uint32_t>(plan_.p.block_tokens);
        with_bits(bits, [&]<int kBits>() {
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
                if (found[u].keys == 0) continue;
                const uint32_t to = slot(u) + slot_side;
                const std::byte* pages[2] = {page(found[u], false), page(found[u], true)};
                copy_side<kHeadDim, kBits, kKeys>(lane, tokens, [&](const VectorCopy& copy) {
                    const std::byte* from =
                        (copy.group == 0 ? pages[0] : pages[1]) +
                        (page_side + copy.from +
                         (copy.group == 0 ? found[u].index[0] : found[u].index[1]) * copy.step);
                    copy_16(to + copy.to + copy.to_constant, from + copy.from_constant);
                });
            }
        });
    }
    // A lane each for a group's scales of one side.
    __device__ __forceinline__ void bring_scales(const Found& found) const {
        const uint32_t lane = threadIdx.x % 32;
        if (lane >= 4) return;
        const bool odd = lane % 2 != 0;
        const uint32_t side = lane < 2 ? plan_.page_k_scales : plan_.page_v_scales;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
            if (found[u].keys == 0) continue;
            copy_16(slot(u) + plan_.slot_scales + lane * kScales,
                    page(found[u], odd) +
                        (side + (odd ? found[u].index[1] : found[u].index[0]) * kScales));
        }
    }
    __device__ __forceinline__ const std::byte* page(const FoundChunk& found, bool second) const {
        const int32_t block = second && plan_.group_shift == 0 ? found.next_block : found.block;
        return found.pages + uint64_t{static_cast<uint32_t>(block)} * plan_.block_stride;
    }

    const DecodePlan& plan_;
    Barrier* full_;
    ChunkWalk* walk_;
    const uint32_t slots_at_;
};

}  // namespace quire::kernels::cuda
