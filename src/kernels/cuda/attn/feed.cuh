// How keys come to a warp of a decode: through slots of its own in shared memory, filled by copies
// that nobody waits for but who reads the slot. While it reads some, others are on their way.
//
// Bulk copies were tried: a piece of a plane each, ten to twenty a chunk. A warp issues them one
// after the other, ten instructions each, and was slower than with a thread for every 16 bytes.
#pragma once

#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/codec/widths.cuh"
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

// Where a chunk is: block numbers of its two groups of 16 tokens, and which group of the page.
struct FoundChunk {
    const std::byte* pages;  // block 0's, of the KV head
    uint32_t block[2], index[2];
    int32_t keys;  // in it; below 0: it is no chunk of this worker's
};

// One warp's slots.
template <int kHeadDim>
class Feed {
    using Map = ChunkMap<kHeadDim>;

 public:
    // walk: of this warp alone, in shared memory. slots_at: the first slot.
    __device__ Feed(const DecodePlan& plan, Barrier* full, ChunkWalk* walk, uint32_t slots_at)
        : plan_(plan), full_(full), walk_(walk), slots_at_(slots_at) {}

    __device__ __forceinline__ uint32_t address(int32_t slot) const {
        return slots_at_ + static_cast<uint32_t>(slot) * plan_.slot_bytes;
    }
    __device__ __forceinline__ void wait(int32_t slot, uint32_t parity) const {
        full_[slot].wait(parity);
    }

    // Chunks come in order. All lanes.
    __device__ __forceinline__ FoundChunk find(int32_t chunk) {
        while (chunk >= walk_->last) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) walk_->next(plan_);
            __syncwarp();
        }
        FoundChunk found;
        found.keys = -1;
        if (!walk_->more) return found;
        const int32_t token = walk_->token + chunk * kChunkKeys;
        found.keys = token + kChunkKeys > walk_->keys.begin ? max(walk_->keys.end - token, 0) : 0;
        if (found.keys == 0) return found;
        const auto group = static_cast<uint32_t>(token) / codec::hot::kLanes;
        const uint32_t mask = (1u << plan_.group_shift) - 1;
        const int32_t* blocks = walk_->blocks;
        found.pages = walk_->pages;
        found.index[0] = group & mask;
        found.index[1] = found.index[0] + 1;
        found.block[0] = static_cast<uint32_t>(__ldg(blocks + (group >> plan_.group_shift)));
        found.block[1] = found.block[0];
        if (plan_.group_shift == 0) {  // behind the last key there may be no page
            found.block[1] = found.keys > static_cast<int32_t>(codec::hot::kLanes)
                                 ? static_cast<uint32_t>(__ldg(blocks + group + 1))
                                 : found.block[0];
            found.index[1] = 0;
        }
        return found;
    }

    // Brings what was found. All lanes, which no longer read the slot.
    __device__ __forceinline__ void bring(const FoundChunk& found, int32_t slot) const {
        if (found.keys < 0) return;
        __syncwarp();
        if (found.keys > 0) copy(found, address(slot));
        arrive_when_copied(&full_[slot]);
    }

 private:
    __device__ __forceinline__ void copy(const FoundChunk& found, uint32_t slot) const {
        const uint32_t lane = opaque(threadIdx.x % 32);
        const auto tokens = static_cast<uint32_t>(plan_.p.block_tokens);
        const std::byte* pages[2] = {page(found, 0), page(found, 1)};
        with_bits(plan_.p.k_bits, [&]<int kBits>() {
            copy_side<kHeadDim, kBits, true>(
                lane, tokens, [&](uint32_t group, uint32_t to, uint32_t from, uint32_t step) {
                    copy_16(slot + to, (group == 0 ? pages[0] : pages[1]) +
                                           (group == 0 ? found.index[0] : found.index[1]) * step +
                                           from);
                });
        });
        const uint32_t values = slot + plan_.slot_values;
        with_bits(plan_.p.v_bits, [&]<int kBits>() {
            copy_side<kHeadDim, kBits, false>(
                lane, tokens, [&](uint32_t group, uint32_t to, uint32_t from, uint32_t step) {
                    copy_16(values + to, (group == 0 ? pages[0] : pages[1]) + plan_.page_values +
                                             (group == 0 ? found.index[0] : found.index[1]) * step +
                                             from);
                });
        });
        if (lane >= 4) return;  // a group's scales of one side each
        const bool odd = lane % 2 != 0;
        copy_16(slot + plan_.slot_scales + lane * codec::hot::kLanes,
                (odd ? pages[1] : pages[0]) +
                    (odd ? found.index[1] : found.index[0]) * codec::hot::kLanes +
                    (lane < 2 ? plan_.page_k_scales : plan_.page_v_scales));
    }
    __device__ __forceinline__ const std::byte* page(const FoundChunk& found, int i) const {
        return found.pages + uint64_t{found.block[i]} * plan_.block_stride;
    }

    const DecodePlan& plan_;
    Barrier* full_;
    ChunkWalk* walk_;
    const uint32_t slots_at_;
};

}  // namespace quire::kernels::cuda
