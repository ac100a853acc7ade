// What a CopyEngine owns. Nothing here is for anybody but the engine's own files.
#pragma once

#include <algorithm>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/copy/copy.h"
#include "kernels/cuda/copy/engine.h"

namespace quire::kernels::cuda {

inline constexpr uint32_t kPieceBytes = 16 << 10;  // of what a warp copies at a time, at most
inline constexpr size_t kBatch = 256;  // copies that a copy engine is given at once: more is slower

// A stream that is held back holds some 1000 calls; one more would wait, in the caller's thread.
inline constexpr uint64_t kCallsMax = 900;

// What a copy takes of the bounded things.
struct CopyNeeds {
    uint64_t pieces = 0;  // places for descriptors
    uint64_t calls = 0;   // of the stream that has more
};
CopyNeeds needs_of(const CopyShape& shape, CopyWay way, const CopyEngineOptions& options);

// What a kernel and the host tell each other about a copy; in pinned memory.
struct CopyFlags {
    StopLine lines[kStopLines];
    uint64_t done_bytes = 0;
};

// A copy that has been submitted and not been forgotten.
struct CopySlot {
    CopyTicket ticket = 0;  // 0: none yet
    CopyDirection direction = CopyDirection::to_device;
    CopyWay way = CopyWay::engines;
    uint64_t bytes = 0;
    uint64_t calls = 0;
    uint64_t pieces_end = 0;  // of its lane's ring: everything before is free once it has ended
    bool ended = true;
    cudaEvent_t end = nullptr;
};

// Descriptors, each used once its kernel is queued, free again when its copy has ended. `begin` and
// `end` only grow; a place is their remainder.
struct PieceRing {
    CopyPiece* pieces = nullptr;
    uint64_t capacity = 0;
    uint64_t begin = 0;
    uint64_t end = 0;

    uint64_t free_pieces() const { return capacity - (end - begin); }
    // The places that follow each other from `end` on.
    std::span<CopyPiece> next() {
        const uint64_t at = end % capacity;
        return {pieces + at, static_cast<size_t>(std::min(free_pieces(), capacity - at))};
    }
};

// One direction. Buffer i of `stages` is free when `relayed[i]` (to the device) or `moved[i]` (to
// the host) has happened.
struct CopyLane {
    cudaStream_t engine = nullptr;  // the copy engine's
    cudaStream_t warps = nullptr;   // the kernels', of the highest priority
    cudaEvent_t joint = nullptr;
    std::byte* stages = nullptr;
    std::vector<cudaEvent_t> moved, relayed;
    uint64_t next_stage = 0;
    PieceRing ring;
    uint64_t calls = 0;                   // of copies that have not ended
    std::vector<StageRun> runs;           // of one stage; room for all it may have
    std::vector<const void*> batch_from;  // of one batch; room for it
    std::vector<void*> batch_to;
    std::vector<size_t> batch_bytes;

    void add_to_batch(const std::byte* from, std::byte* to, uint64_t bytes) {
        batch_from.push_back(from);
        batch_to.push_back(to);
        batch_bytes.push_back(bytes);
    }
    // Queues the batch, which is empty afterwards.
    cudaError_t queue_batch();
};

struct CopyEngine::State {
    CopyEngineOptions options;
    CopyLane lanes[2];
    std::vector<CopySlot> slots;  // ticket t's is (t - 1) % copies_max
    CopyFlags* flags = nullptr;   // one a slot
    CopyProgress* progress = nullptr;
    CopyPiece* pieces = nullptr;
    CopyTicket last = 0;

    CopyLane& lane(CopyDirection direction) { return lanes[static_cast<int>(direction)]; }
    size_t index_of(CopyTicket ticket) const { return (ticket - 1) % slots.size(); }

    cudaError_t open();
    void close();
    Status check_ever_fits(const CopyNeeds& needs) const;
    // Looks which copies have ended.
    void retire();
    // Launch of `n` pieces from the ring's end on, which then grows.
    cudaError_t launch(CopyLane& lane, size_t slot, size_t n, uint64_t* sums);
    cudaError_t queue_engines(const CopyRequest& request);
    cudaError_t queue_staged(const CopyRequest& request, size_t slot);
    cudaError_t queue_warps(const CopyRequest& request, size_t slot);
    cudaError_t queue(const CopyRequest& request, CopySlot& slot, size_t index);
};

}  // namespace quire::kernels::cuda
