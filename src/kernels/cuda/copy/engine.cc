#include "kernels/cuda/copy/engine.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <string>
#include <thread>

#include "kernels/cuda/copy/engine_state.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr uint64_t kEnginesMax = 16384;  // copies of one submit that a copy engine gets one by one

Error failed(const char* what, cudaError_t error) {
    const bool memory = error == cudaErrorMemoryAllocation;
    return make_error(memory ? Code::full : Code::unsupported,
                      std::string(what) + ": " + cudaGetErrorString(error), error);
}

Status check(const CopyEngineOptions& o) {
    const auto wrong = [](const char* what) { return make_error(Code::invalid, what); };
    if (o.blocks < 1 || o.relay_blocks < 1) return wrong("a copy engine needs at least one block");
    if (o.stages < 2) return wrong("a copy engine needs at least two staging buffers");
    if (o.stage_bytes == 0 || o.stage_bytes % (64 << 10) != 0)
        return wrong("staging buffers are made of whole 64 KiB");
    if (o.pieces_max < 1024) return wrong("a copy engine needs places for 1024 pieces");
    if (o.copies_max < 1) return wrong("a copy engine needs a place for a copy");
    if (!std::has_single_bit(o.boundary_bytes) || o.boundary_bytes < (64 << 10))
        return wrong("boundaries lie at a power of two, from 64 KiB on");
    return {};
}

}  // namespace

CopyEngine::CopyEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<CopyEngine>> CopyEngine::create(const CopyEngineOptions& options) {
    QUIRE_TRY(check(options));
    auto state = std::make_unique<State>();
    state->options = options;
    std::unique_ptr<CopyEngine> engine(new CopyEngine(std::move(state)));
    if (const cudaError_t error = engine->state_->open(); error != cudaSuccess)
        return failed("a copy engine", error);
    return engine;
}

CopyEngine::~CopyEngine() {
    for (const CopySlot& slot : state_->slots) cancel(slot.ticket);
    state_->close();
}

const CopyEngineOptions& CopyEngine::options() const {
    return state_->options;
}

CopyShape CopyEngine::shape_of(std::span<const CopyFragment> fragments,
                               CopyDirection direction) const {
    return cuda::shape_of(
        fragments, direction,
        {.piece_bytes = kPieceBytes, .boundary_bytes = state_->options.boundary_bytes});
}

Result<CopyTicket> CopyEngine::submit(const CopyRequest& request) {
    State& s = *state_;
    s.retire();
    const CopyShape shape =
        request.shape ? *request.shape : shape_of(request.fragments, request.direction);
    CopyWay way =
        request.way.value_or(choose(s.options.table, request.direction, shape, kEnginesMax));
    if (request.sums != nullptr && way == CopyWay::engines) {
        if (request.way) return make_error(Code::invalid, "copy engines compute no checksums");
        way = CopyWay::staged;
    }
    const CopyNeeds needs = needs_of(shape, way, s.options);
    QUIRE_TRY(s.check_ever_fits(needs));
    const size_t index = s.index_of(s.last + 1);
    CopySlot& slot = s.slots[index];
    CopyLane& lane = s.lane(request.direction);
    if (!slot.ended || needs.pieces > lane.ring.free_pieces() ||
        needs.calls > kCallsMax - lane.calls)
        return make_error(Code::busy, "too many copies are under way");
    slot = {.ticket = ++s.last,
            .direction = request.direction,
            .way = way,
            .bytes = shape.bytes,
            .calls = needs.calls,
            .ended = false,
            .end = slot.end};
    lane.calls += needs.calls;
    s.flags[index] = {};
    const cudaError_t error = s.queue(request, slot, index);
    slot.pieces_end = lane.ring.end;
    if (error != cudaSuccess) return failed("a copy", error);
    return slot.ticket;
}

void CopyEngine::cancel(CopyTicket ticket) {
    State& s = *state_;
    if (ticket == 0 || ticket > s.last) return;
    const size_t index = s.index_of(ticket);
    if (s.slots[index].ticket != ticket || s.slots[index].ended) return;
    for (StopLine& line : s.flags[index].lines)
        std::atomic_ref(line.stop).store(1, std::memory_order_release);
}

CopyStatus CopyEngine::status(CopyTicket ticket) {
    State& s = *state_;
    s.retire();
    if (ticket == 0 || ticket > s.last) return {.end = CopyEnd::cancelled};
    const size_t index = s.index_of(ticket);
    const CopySlot& slot = s.slots[index];
    if (slot.ticket != ticket) return {.end = CopyEnd::whole};
    if (!slot.ended) return {.end = CopyEnd::not_yet, .way = slot.way};
    const uint64_t done =
        slot.way == CopyWay::engines
            ? slot.bytes
            : std::atomic_ref(s.flags[index].done_bytes).load(std::memory_order_acquire);
    return {.end = done == slot.bytes ? CopyEnd::whole : CopyEnd::cancelled,
            .done_bytes = done,
            .way = slot.way};
}

Status CopyEngine::queue_wait(CUstream_st* stream, CopyTicket ticket) {
    State& s = *state_;
    if (ticket == 0 || ticket > s.last)
        return make_error(Code::invalid, "no copy has ticket " + std::to_string(ticket));
    const CopySlot& slot = s.slots[s.index_of(ticket)];
    if (slot.ticket != ticket || slot.ended) return {};
    const cudaError_t error = cudaStreamWaitEvent(stream, slot.end, 0);
    if (error != cudaSuccess) return failed("a wait for a copy", error);
    return {};
}

Status CopyEngine::wait(CopyTicket ticket, int64_t timeout_ns) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    while (!has_ended(ticket)) {
        if (std::chrono::steady_clock::now() >= deadline)
            return make_error(Code::timeout,
                              "copy " + std::to_string(ticket) + " is still under way");
        std::this_thread::yield();
    }
    return {};
}

}  // namespace quire::kernels::cuda
