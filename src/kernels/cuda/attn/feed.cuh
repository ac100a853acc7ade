// How keys come to a decode's warps: a ring of slots in shared memory, filled by copies that nobody
// waits for but who reads the slot.
//
// A worker's chunks are numbered through all its segments. Chunk n goes to slot n % slots and is
// read by warp n % warps, who then brings chunk n + slots to the same slot. So the ring is full all
// the time, also while the block ends one segment and begins the next.
#pragma once

#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/codec/widths.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {

// A worker's segments in order, and the numbers of the chunks of the current one.
struct ChunkWalk {
    SegmentWalker walker;
    Segment segment;
    int32_t first = 0, last = 0;  // chunks
    int32_t token = 0;            // of chunk 0, had the segment begun before
    KeySpan keys;
    int32_t kv_head = 0, pass = 0;
    const int32_t* blocks = nullptr;   // of the request
    const std::byte* pages = nullptr;  // block 0's, of the KV head
    bool more = true;

    __device__ explicit ChunkWalk(const WorkList& list, int32_t worker) : walker(list, worker) {}

    __device__ void next(const DecodePlan& plan) {
        const DecodeParams& p = plan.p;
        more = walker.next(&segment);
        first = last;
        last = more ? first + (segment.end - segment.begin) * kTileChunks : INT32_MAX;
        if (!more) return;
        keys = keys_of(p, segment.request);
        kv_head = segment.head / plan.passes;
        pass = segment.head % plan.passes;
        blocks = p.blocks + segment.request * p.table_stride;
        pages = p.pages + kv_head * p.head_stride;
        token = (first_tile(keys, kTileTokens) + segment.begin) * kTileTokens -
                first * static_cast<int32_t>(kChunkTokens);
    }
};

__device__ __forceinline__ int32_t token_of(int32_t start, int32_t chunk) {
    return start + chunk * static_cast<int32_t>(kChunkTokens);
}
__device__ __forceinline__ bool has_keys(const KeySpan& keys, int32_t token) {
    return token < keys.end && token + static_cast<int32_t>(kChunkTokens) > keys.begin;
}

struct Ring {
    Barrier full[kSlotsMax];
    // How often a slot was filled, or is being filled: barriers tell two rounds apart, not three.
    // Where a slot has one warp only, who waits is who fills, and need not look.
    int32_t filled[kSlotsMax];
};

// Where a warp is in the ring.
struct RingPlace {
    int32_t chunk, slot, round;

    // REQUIRES: by <= slots.
    __device__ __forceinline__ void forward(int32_t by, int32_t slots) {
        chunk += by;
        slot += by;
        if (slot < slots) return;
        slot -= slots;
        ++round;
    }
};

// One warp's side of the ring.
template <int kHeadDim>
class Feed {
    using Map = ChunkMap<kHeadDim>;

 public:
    // walk: of this warp alone, in shared memory. slots_at: the first slot, in shared memory.
    __device__ Feed(const DecodePlan& plan, Ring* ring, ChunkWalk* walk, uint32_t slots_at)
        : plan_(plan), p_(plan.p), ring_(ring), walk_(walk), slots_at_(slots_at) {}

    __device__ uint32_t address(int32_t slot) const {
        return slots_at_ + static_cast<uint32_t>(slot) * plan_.slot_bytes;
    }

    __device__ __forceinline__ void wait(const RingPlace& at) const {
        if (plan_.slots_are_shared)
            while (static_cast<volatile int32_t*>(ring_->filled)[at.slot] <= at.round) {
            }
        ring_->full[at.slot].wait(static_cast<uint32_t>(at.round) & 1);
    }

    // Chunks of a warp come in order. All lanes.
    __device__ __forceinline__ void bring(int32_t chunk, int32_t slot, int32_t round) {
        while (chunk >= walk_->last) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) walk_->next(plan_);
            __syncwarp();
        }
        const int32_t token = token_of(walk_->token, chunk);
        if (walk_->more && has_keys(walk_->keys, token)) copy(token, address(slot));
        arrive_when_copied(&ring_->full[slot]);
        if (!plan_.slots_are_shared) return;
        __syncwarp();
        if (threadIdx.x % 32 == 0) static_cast<volatile int32_t*>(ring_->filled)[slot] = round + 1;
    }

 private:
    // Of a group behind the last key there may be no page: its last one is read, and weighs
    // nothing.
    __device__ __forceinline__ void copy(int32_t token, uint32_t slot) const {
        constexpr uint32_t kGroup = codec::hot::kLanes;
        const auto group = static_cast<uint32_t>(token) / kGroup;
        const uint32_t mask = (1u << plan_.group_shift) - 1;
        const int32_t* blocks = walk_->blocks;
        const auto page_at = [&](uint32_t i) {
            return walk_->pages +
                   static_cast<uint64_t>(static_cast<uint32_t>(blocks[i >> plan_.group_shift])) *
                       plan_.block_stride;
        };
        const std::byte* pages[2] = {page_at(group), nullptr};
        uint32_t index[2] = {group & mask, (group & mask) + 1};
        pages[1] = pages[0];
        if (plan_.group_shift == 0) {
            pages[1] = page_at(min(group + 1, static_cast<uint32_t>(walk_->keys.end - 1) / kGroup));
            index[1] = 0;
        }
        const uint32_t lane = opaque(threadIdx.x % 32);
        const auto tokens = static_cast<uint32_t>(p_.block_tokens);
        with_bits(p_.k_bits, [&]<int kBits>() {
            copy_side<kHeadDim, kBits, true>(
                lane, tokens, index, [&](uint32_t i, uint32_t to, uint32_t at) {
                    copy_16(slot + to, (i == 0 ? pages[0] : pages[1]) + at);
                });
        });
        const uint32_t values = slot + plan_.slot_values;
        const std::byte* sides[2] = {pages[0] + plan_.page_values, pages[1] + plan_.page_values};
        with_bits(p_.v_bits, [&]<int kBits>() {
            copy_side<kHeadDim, kBits, false>(
                lane, tokens, index, [&](uint32_t i, uint32_t to, uint32_t at) {
                    copy_16(values + to, (i == 0 ? sides[0] : sides[1]) + at);
                });
        });
        if (lane >= 4) return;  // a group's scales of one side each
        const bool odd = lane % 2 != 0;
        copy_16(slot + plan_.slot_scales + lane * kGroup,
                (odd ? pages[1] : pages[0]) + (odd ? index[1] : index[0]) * kGroup +
                    (lane < 2 ? plan_.page_k_scales : plan_.page_v_scales));
    }

    const DecodePlan& plan_;
    const DecodeParams& p_;
    Ring* ring_;
    ChunkWalk* walk_;
    const uint32_t slots_at_;
};

}  // namespace quire::kernels::cuda
