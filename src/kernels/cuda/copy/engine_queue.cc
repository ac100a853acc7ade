// What a CopyEngine makes and frees, and how it queues a copy each of three ways.
#include <algorithm>
#include <atomic>

#include "kernels/cuda/copy/engine_state.h"

namespace quire::kernels::cuda {
namespace {

constexpr uint64_t kSmallestStageBytes = uint64_t{1} << 20;
constexpr uint32_t kRunsMax = 64;  // copies of the copy engine for a stage

#define QUIRE_CUDA_TRY(call)                                               \
    do {                                                                   \
        if (const cudaError_t error_ = (call); error_ != 0) return error_; \
    } while (false)

cudaError_t make_event(cudaEvent_t& event) {
    return cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
}

cudaError_t open_lane(CopyLane& lane, const CopyEngineOptions& o, CopyPiece* pieces) {
    int least = 0, greatest = 0;
    QUIRE_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    QUIRE_CUDA_TRY(cudaStreamCreateWithFlags(&lane.engine, cudaStreamNonBlocking));
    QUIRE_CUDA_TRY(cudaStreamCreateWithPriority(&lane.warps, cudaStreamNonBlocking, greatest));
    QUIRE_CUDA_TRY(make_event(lane.joint));
    lane.moved.resize(static_cast<size_t>(o.stages));
    lane.relayed.resize(static_cast<size_t>(o.stages));
    for (cudaEvent_t& event : lane.moved) QUIRE_CUDA_TRY(make_event(event));
    for (cudaEvent_t& event : lane.relayed) QUIRE_CUDA_TRY(make_event(event));
    void* stages = nullptr;
    QUIRE_CUDA_TRY(cudaMalloc(&stages, static_cast<uint64_t>(o.stages) * o.stage_bytes));
    lane.stages = static_cast<std::byte*>(stages);
    lane.ring = {.pieces = pieces, .capacity = o.pieces_max};
    lane.runs.reserve(kRunsMax);
    return cudaSuccess;
}

void close_lane(CopyLane& lane) {
    for (cudaStream_t stream : {lane.engine, lane.warps}) {
        if (stream == nullptr) continue;
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
    }
    for (const auto* events : {&lane.moved, &lane.relayed})
        for (cudaEvent_t event : *events)
            if (event != nullptr) cudaEventDestroy(event);
    if (lane.joint != nullptr) cudaEventDestroy(lane.joint);
    cudaFree(lane.stages);
}

// Small copies go through small stages: the first one's move and the last one's relay have nothing
// to hide behind.
uint64_t stage_bytes_for(uint64_t bytes, uint64_t stage_bytes) {
    const uint64_t share = bytes / 16 / kSmallestStageBytes * kSmallestStageBytes;
    return std::clamp(share, std::min(kSmallestStageBytes, stage_bytes), stage_bytes);
}

}  // namespace

uint64_t pieces_of(std::span<const CopyFragment> fragments, const CopyEngineOptions& o) {
    uint64_t pieces = 1, bytes = 0;
    for (const CopyFragment& f : fragments) {
        if (f.bytes == 0) continue;
        const auto crossed = [&](const std::byte* p) {
            const auto first = reinterpret_cast<uintptr_t>(p);
            return (first + f.bytes - 1) / o.boundary_bytes - first / o.boundary_bytes;
        };
        pieces += (f.bytes + kPieceBytes - 1) / kPieceBytes + crossed(f.from) + crossed(f.to);
        bytes += f.bytes;
    }
    return pieces + bytes / std::min(kSmallestStageBytes, o.stage_bytes);
}

cudaError_t CopyEngine::State::open() {
    const auto copies = static_cast<size_t>(options.copies_max);
    slots.resize(copies);
    for (CopySlot& slot : slots) QUIRE_CUDA_TRY(make_event(slot.end));
    void *pinned = nullptr, *device = nullptr;
    QUIRE_CUDA_TRY(cudaHostAlloc(&pinned, copies * sizeof(CopyFlags), cudaHostAllocPortable));
    flags = static_cast<CopyFlags*>(pinned);
    std::fill_n(flags, copies, CopyFlags{});
    QUIRE_CUDA_TRY(cudaMalloc(&device, copies * sizeof(CopyProgress)));
    progress = static_cast<CopyProgress*>(device);
    QUIRE_CUDA_TRY(cudaHostAlloc(&pinned, 2 * size_t{options.pieces_max} * sizeof(CopyPiece),
                                 cudaHostAllocPortable));
    pieces = static_cast<CopyPiece*>(pinned);
    QUIRE_CUDA_TRY(open_lane(lanes[0], options, pieces));
    return open_lane(lanes[1], options, pieces + options.pieces_max);
}

void CopyEngine::State::close() {
    for (CopyLane& lane : lanes) close_lane(lane);
    for (const CopySlot& slot : slots)
        if (slot.end != nullptr) cudaEventDestroy(slot.end);
    cudaFree(progress);
    cudaFreeHost(pieces);
    cudaFreeHost(flags);
}

// The copies of a direction need not end in their order, but their descriptors become free in it.
void CopyEngine::State::retire() {
    bool in_order[2] = {true, true};
    const CopyTicket oldest = last >= slots.size() ? last - slots.size() + 1 : 1;
    for (CopyTicket ticket = oldest; ticket <= last; ++ticket) {
        CopySlot& slot = slots[index_of(ticket)];
        if (!slot.ended) slot.ended = cudaEventQuery(slot.end) != cudaErrorNotReady;
        bool& free = in_order[static_cast<int>(slot.direction)];
        free = free && slot.ended;
        PieceRing& ring = lane(slot.direction).ring;
        if (free) ring.begin = std::max(ring.begin, slot.pieces_end);
    }
}

cudaError_t CopyEngine::State::launch(CopyLane& lane, size_t slot, size_t n, uint64_t* sums) {
    const CopyLaunch launch = {.pieces = lane.ring.next().data(),
                               .n = static_cast<int32_t>(n),
                               .blocks = options.blocks,
                               .stop = &flags[slot].stop,
                               .progress = progress + slot,
                               .done_bytes = &flags[slot].done_bytes,
                               .sums = sums};
    lane.ring.end += n;
    return static_cast<cudaError_t>(copy_pieces(launch, lane.warps));
}

cudaError_t CopyEngine::State::queue_engines(const CopyRequest& request) {
    const cudaStream_t stream = lane(request.direction).engine;
    const auto copy = [&](const CopyFragment& f) {
        for (uint64_t at = 0; at < f.bytes;) {
            const auto to_boundary = [&](const std::byte* p) {
                return options.boundary_bytes -
                       reinterpret_cast<uintptr_t>(p + at) % options.boundary_bytes;
            };
            const uint64_t bytes = std::min({f.bytes - at, to_boundary(f.from), to_boundary(f.to)});
            QUIRE_CUDA_TRY(
                cudaMemcpyAsync(f.to + at, f.from + at, bytes, cudaMemcpyDefault, stream));
            at += bytes;
        }
        return cudaSuccess;
    };
    CopyFragment joined;
    for (const CopyFragment& f : request.fragments) {
        if (joined.from + joined.bytes == f.from && joined.to + joined.bytes == f.to) {
            joined.bytes += f.bytes;
            continue;
        }
        QUIRE_CUDA_TRY(copy(joined));
        joined = f;
    }
    return copy(joined);
}

cudaError_t CopyEngine::State::queue_staged(const CopyRequest& request, size_t slot) {
    CopyLane& lane = this->lane(request.direction);
    const bool up = request.direction == CopyDirection::to_device;
    const cudaStream_t first = up ? lane.engine : lane.warps;
    const cudaStream_t second = up ? lane.warps : lane.engine;
    StageCursor cursor(request.fragments, request.direction,
                       {.stage_bytes = stage_bytes_for(slots[slot].bytes, options.stage_bytes),
                        .piece_bytes = kPieceBytes,
                        .runs_max = kRunsMax,
                        .boundary_bytes = options.boundary_bytes});
    while (!cursor.at_end()) {
        const size_t i = lane.next_stage++ % lane.moved.size();
        const cudaEvent_t free = up ? lane.relayed[i] : lane.moved[i];
        const cudaEvent_t filled = up ? lane.moved[i] : lane.relayed[i];
        std::byte* buffer = lane.stages + i * options.stage_bytes;
        const size_t n = cursor.next(buffer, lane.runs, lane.ring.next());
        const auto move = [&] {
            for (const StageRun& run : lane.runs) {
                std::byte* staged = buffer + run.at;
                QUIRE_CUDA_TRY(cudaMemcpyAsync(up ? staged : run.host, up ? run.host : staged,
                                               run.bytes, cudaMemcpyDefault, lane.engine));
            }
            return cudaSuccess;
        };
        const auto relay = [&] { return launch(lane, slot, n, request.sums); };
        QUIRE_CUDA_TRY(cudaStreamWaitEvent(first, free, 0));
        QUIRE_CUDA_TRY(up ? move() : relay());
        QUIRE_CUDA_TRY(cudaEventRecord(filled, first));
        QUIRE_CUDA_TRY(cudaStreamWaitEvent(second, filled, 0));
        QUIRE_CUDA_TRY(up ? relay() : move());
        QUIRE_CUDA_TRY(cudaEventRecord(free, second));
    }
    return cudaSuccess;
}

cudaError_t CopyEngine::State::queue_warps(const CopyRequest& request, size_t slot) {
    CopyLane& lane = this->lane(request.direction);
    StageCursor cursor(request.fragments, request.direction,
                       {.stage_bytes = slots[slot].bytes,
                        .piece_bytes = kPieceBytes,
                        .runs_max = 1,
                        .boundary_bytes = options.boundary_bytes});
    while (!cursor.at_end()) {
        const size_t n = cursor.next(nullptr, lane.runs, lane.ring.next());
        QUIRE_CUDA_TRY(launch(lane, slot, n, request.sums));
    }
    return cudaSuccess;
}

cudaError_t CopyEngine::State::queue(const CopyRequest& request, CopySlot& slot, size_t index) {
    CopyLane& lane = this->lane(request.direction);
    const bool up = request.direction == CopyDirection::to_device;
    const bool last_by_warps = slot.way == CopyWay::warps || (slot.way == CopyWay::staged && up);
    const cudaStream_t last_stream = last_by_warps ? lane.warps : lane.engine;
    const auto body = [&] {
        for (cudaEvent_t event : request.after) {
            QUIRE_CUDA_TRY(cudaStreamWaitEvent(lane.engine, event, 0));
            QUIRE_CUDA_TRY(cudaStreamWaitEvent(lane.warps, event, 0));
        }
        if (slot.way == CopyWay::engines) return queue_engines(request);
        QUIRE_CUDA_TRY(cudaMemsetAsync(progress + index, 0, sizeof(CopyProgress), lane.warps));
        return slot.way == CopyWay::staged ? queue_staged(request, index)
                                           : queue_warps(request, index);
    };
    const cudaError_t error = body();
    if (error == cudaSuccess) return cudaEventRecord(slot.end, last_stream);
    // What was queued before the error ends when both streams have come here.
    cudaEventRecord(lane.joint, lane.warps);
    cudaStreamWaitEvent(lane.engine, lane.joint, 0);
    cudaEventRecord(slot.end, lane.engine);
    return error;
}

}  // namespace quire::kernels::cuda
