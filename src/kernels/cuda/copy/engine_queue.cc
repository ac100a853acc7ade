// What a CopyEngine makes and frees, and how it queues a copy each of three ways.
#include <algorithm>
#include <bit>
#include <string>

#include "kernels/cuda/copy/engine_state.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kFirstStageBytesMax = 8 * kMiB;
// Of what a kernel copies without a stage: short enough that the next one's list is made meanwhile.
constexpr uint64_t kDirectBytes = uint64_t{64} << 20;

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
    lane.runs.reserve(kBatch);
    lane.batch_from.reserve(kBatch);
    lane.batch_to.reserve(kBatch);
    lane.batch_bytes.reserve(kBatch);
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

// An eighth of a small copy, so that its parts overlap.
uint64_t first_stage_bytes(uint64_t bytes, uint64_t most) {
    return std::min(std::clamp(bytes / 8 / kMiB * kMiB, kMiB, kFirstStageBytesMax), most);
}

// How large the next stage is, of a copy of `bytes` of which `done` have been queued. The first
// ones are small, because nothing moves before a list is made, and so are the last ones that come
// to the device: the last relay has nothing to hide behind. They are no smaller, because each relay
// waits for multiprocessors where somebody computes.
uint64_t next_stage_bytes(uint64_t done, uint64_t bytes, uint64_t most, bool small_ends) {
    const uint64_t first = first_stage_bytes(bytes, most), left = bytes - done;
    const uint64_t wanted = std::min(done + first, small_ends ? left / 2 : left);
    return wanted >= most ? most : std::max(wanted / kMiB * kMiB, first);
}

// At least as many as next_stage_bytes() makes.
uint64_t stages_of(uint64_t bytes, uint64_t most) {
    const auto doublings = static_cast<uint64_t>(std::bit_width(most / kMiB));
    return bytes / most + 2 * doublings + 8;
}

}  // namespace

// Generous by a stage or two: lists end where the ring does.
CopyNeeds needs_of(const CopyShape& shape, CopyWay way, const CopyEngineOptions& o) {
    constexpr uint64_t kAround = 16;   // events before, the one after, and what clears counts
    constexpr uint64_t kOfBatch = 12;  // as was seen: it is not one call of a stream's
    if (way == CopyWay::engines) return {.calls = kAround + (shape.joined / kBatch + 1) * kOfBatch};
    if (way == CopyWay::warps)
        return {.pieces = shape.pieces + stages_of(shape.bytes, kDirectBytes),
                .calls = kAround + stages_of(shape.bytes, kDirectBytes)};
    const uint64_t batches = shape.host_runs / kBatch;
    const uint64_t stages = stages_of(shape.bytes, o.stage_bytes) + batches;
    const bool one_run = shape.host_runs <= stages;
    return {.pieces = shape.pieces + stages,
            .calls = kAround + stages * (one_run ? 3 : 3 + kOfBatch)};
}

Status CopyEngine::State::check_ever_fits(const CopyNeeds& needs) const {
    if (needs.pieces <= options.pieces_max && needs.calls <= kCallsMax) return {};
    return make_error(Code::invalid, "a copy of " + std::to_string(needs.pieces) + " pieces and " +
                                         std::to_string(needs.calls) + " calls: at most " +
                                         std::to_string(options.pieces_max) + " and " +
                                         std::to_string(kCallsMax) + " fit; submit it in parts");
}

cudaError_t CopyLane::queue_batch() {
    if (batch_bytes.empty()) return cudaSuccess;
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
    const cudaError_t error =
        batch_bytes.size() == 1
            ? cudaMemcpyAsync(batch_to[0], batch_from[0], batch_bytes[0], cudaMemcpyDefault, engine)
            : cudaMemcpyBatchAsync(batch_to.data(), batch_from.data(), batch_bytes.data(),
                                   batch_bytes.size(), &attributes, &first, 1, engine);
    batch_from.clear();
    batch_to.clear();
    batch_bytes.clear();
    return error;
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
    QUIRE_CUDA_TRY(cudaMemset(progress, 0, copies * sizeof(CopyProgress)));
    // A kernel that loads while streams are held back would wait for them.
    QUIRE_CUDA_TRY(static_cast<cudaError_t>(load_copy()));
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
        if (!slot.ended && cudaEventQuery(slot.end) != cudaErrorNotReady) {
            slot.ended = true;
            lane(slot.direction).calls -= slot.calls;
        }
        bool& free = in_order[static_cast<int>(slot.direction)];
        free = free && slot.ended;
        PieceRing& ring = lane(slot.direction).ring;
        if (free) ring.begin = std::max(ring.begin, slot.pieces_end);
    }
}

cudaError_t CopyEngine::State::launch(CopyLane& lane, size_t slot, size_t n, uint64_t* sums) {
    const bool relays = slots[slot].way == CopyWay::staged;
    const CopyLaunch launch = {.pieces = lane.ring.next().data(),
                               .n = static_cast<int32_t>(n),
                               .blocks = relays ? options.relay_blocks : options.blocks,
                               .stop = flags[slot].lines,
                               .progress = progress + slot,
                               .done_bytes = &flags[slot].done_bytes,
                               .sums = sums};
    lane.ring.end += n;
    return static_cast<cudaError_t>(copy_pieces(launch, lane.warps));
}

cudaError_t CopyEngine::State::queue_engines(const CopyRequest& request) {
    CopyLane& lane = this->lane(request.direction);
    const auto to_boundary = [&](const std::byte* p) {
        return options.boundary_bytes -
               (reinterpret_cast<uintptr_t>(p) & (options.boundary_bytes - 1));
    };
    const auto add = [&](const CopyFragment& f) {
        for (uint64_t at = 0; at < f.bytes;) {
            const uint64_t bytes =
                std::min({f.bytes - at, to_boundary(f.from + at), to_boundary(f.to + at)});
            lane.add_to_batch(f.from + at, f.to + at, bytes);
            if (lane.batch_bytes.size() == kBatch) QUIRE_CUDA_TRY(lane.queue_batch());
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
        QUIRE_CUDA_TRY(add(joined));
        joined = f;
    }
    QUIRE_CUDA_TRY(add(joined));
    return lane.queue_batch();
}

cudaError_t CopyEngine::State::queue_staged(const CopyRequest& request, size_t slot) {
    CopyLane& lane = this->lane(request.direction);
    const bool up = request.direction == CopyDirection::to_device;
    const cudaStream_t first = up ? lane.engine : lane.warps;
    const cudaStream_t second = up ? lane.warps : lane.engine;
    StageCursor cursor(
        request.fragments, request.direction,
        {.piece_bytes = kPieceBytes, .runs_max = kBatch, .boundary_bytes = options.boundary_bytes});
    while (!cursor.at_end()) {
        const size_t i = lane.next_stage++ % lane.moved.size();
        const cudaEvent_t free = up ? lane.relayed[i] : lane.moved[i];
        const cudaEvent_t filled = up ? lane.moved[i] : lane.relayed[i];
        std::byte* buffer = lane.stages + i * options.stage_bytes;
        const uint64_t done = cursor.done_bytes();
        const uint64_t stage_bytes =
            next_stage_bytes(done, slots[slot].bytes, options.stage_bytes, up);
        const size_t n = cursor.next(buffer, stage_bytes, lane.runs, lane.ring.next());
        const auto move = [&] {
            for (const StageRun& run : lane.runs) {
                std::byte* staged = buffer + run.at;
                lane.add_to_batch(up ? run.host : staged, up ? staged : run.host, run.bytes);
            }
            return lane.queue_batch();
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
    StageCursor cursor(
        request.fragments, request.direction,
        {.piece_bytes = kPieceBytes, .runs_max = 1, .boundary_bytes = options.boundary_bytes});
    while (!cursor.at_end()) {
        const uint64_t done = cursor.done_bytes();
        const uint64_t lot_bytes = next_stage_bytes(done, slots[slot].bytes, kDirectBytes, false);
        const size_t n = cursor.next(nullptr, lot_bytes, lane.runs, lane.ring.next());
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
