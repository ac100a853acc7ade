// How keys come to a warp of a decode: through slots of its own in shared memory, filled by bulk
// copies. While it reads one the others are on their way.
#pragma once

#include "kernels/cuda/attn/launch.h"
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
        last = more ? first + segment.end - segment.begin : INT32_MAX;
        if (!more) return;
        keys = keys_of(p, segment.request);
        kv_head = segment.head / plan.passes;
        pass = segment.head % plan.passes;
        blocks = p.blocks + segment.request * p.table_stride;
        pages = p.pages + kv_head * p.head_stride;
        token = (first_tile(keys, kTileTokens) + segment.begin - first) * kTileTokens;
    }
};

// One warp's slots.
class Feed {
 public:
    // walk: of this warp alone, pieces: [32], both in shared memory. slots_at: the first slot.
    __device__ Feed(const DecodePlan& plan, Barrier* full, ChunkWalk* walk, const uint4* pieces,
                    uint32_t slots_at)
        : plan_(plan), full_(full), walk_(walk), pieces_(pieces), slots_at_(slots_at) {}

    __device__ __forceinline__ uint32_t address(int32_t slot) const {
        return slots_at_ + static_cast<uint32_t>(slot) * plan_.slot_bytes;
    }
    __device__ __forceinline__ void wait(int32_t slot, uint32_t parity) const {
        full_[slot].wait(parity);
    }

    // Looks up where chunk n is. Chunks come in order. All lanes; each looks for its own piece.
    __device__ __forceinline__ void find(int32_t chunk) {
        while (chunk >= walk_->last) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) walk_->next(plan_);
            __syncwarp();
        }
        found_ = walk_->more;
        if (!found_) return;
        const uint32_t own = pieces_[threadIdx.x % 32].w & 1;
        // Behind the last group there may be no page: the last one is read, and weighs nothing.
        const uint32_t group = min(
            static_cast<uint32_t>(walk_->token + chunk * kTileTokens) / codec::hot::kLanes + own,
            static_cast<uint32_t>(walk_->keys.end - 1) / codec::hot::kLanes);
        index_ = group & ((1u << plan_.group_shift) - 1);
        block_ = static_cast<uint32_t>(__ldg(walk_->blocks + (group >> plan_.group_shift)));
    }
    // Brings what was found. All lanes, which no longer read the slot.
    __device__ __forceinline__ void bring(int32_t slot) const {
        if (!found_) return;
        const uint4 piece = pieces_[threadIdx.x % 32];  // as pack_piece() has it
        const std::byte* from =
            walk_->pages + uint64_t{block_} * plan_.block_stride + (piece.x + index_ * piece.y);
        __syncwarp();
        if (threadIdx.x % 32 == 0) full_[slot].arrive_expecting(plan_.chunk_bytes);
        const uint32_t bytes = piece.w & ~1u;
        if (bytes != 0) bulk_copy(address(slot) + piece.z, from, bytes, &full_[slot]);
    }

    static __device__ uint4 pack_piece(const Piece& piece) {
        return {piece.from, piece.step, piece.to, piece.bytes | piece.group};
    }

 private:
    const DecodePlan& plan_;
    Barrier* full_;
    ChunkWalk* walk_;
    const uint4* pieces_;
    const uint32_t slots_at_;
    bool found_ = false;
    uint32_t index_ = 0, block_ = 0;
};

}  // namespace quire::kernels::cuda
