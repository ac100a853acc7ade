// Copies between device memory and pinned memory of the host, many fragments at a time, each way
// beside the other, and the fences around them.
//
// Fences. A copy touches nothing before the events it was given have happened; what it reads and
// writes may be used again only once its ticket has ended, cancelled or not: has_ended() asks,
// queue_wait() makes a stream wait. Cancelling stops what has not begun and says how much was
// copied; the pages stay the copy's until the ticket ends, and after that nothing writes them.
//
// Everything is bounded and made once: streams, events, staging buffers, places for descriptors.
// A submit that finds no place is told so (busy) and has queued nothing. One thread at a time; the
// device is current in it. Copies are ordered by nothing but the events they are given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "kernels/cuda/copy/choose.h"
#include "kernels/cuda/copy/copy_plan.h"

struct CUevent_st;
struct CUstream_st;

namespace quire::kernels::cuda {

struct CopyEngineOptions {
    // Multiprocessors, at most: of kernels that read or write the host's memory, and are there as
    // long as that takes; of kernels that relay a stage, and are there for moments. What computes
    // meanwhile waits for all blocks of both: many for a short time cost it less than few.
    int32_t blocks = 8;
    int32_t relay_blocks = 32;
    uint64_t stage_bytes = uint64_t{32} << 20;    // a multiple of 64 KiB; each direction has:
    int32_t stages = 4;                           // staging buffers
    uint32_t pieces_max = 1 << 19;                // descriptors (32 pinned bytes) not yet done with
    int32_t copies_max = 64;                      // copies not yet ended, at least 1
    uint64_t boundary_bytes = uint64_t{1} << 30;  // PinnedPool::slice_bytes()
    CopyTable table = default_copy_table();
};

using CopyTicket = uint64_t;  // 1 and up, of one engine

struct CopyRequest {
    // Fragments that follow each other on the host in that order: that is what staging lives on.
    // Not read after submit(). REQUIRES: check_fragments() is ok.
    std::span<const CopyFragment> fragments;
    CopyDirection direction = CopyDirection::to_device;
    std::span<CUevent_st* const> after;  // recorded already; nothing is touched before them
    // Null, or a place in device memory for each fragment, 0 at first: its checksum() is added.
    uint64_t* sums = nullptr;
    std::optional<CopyWay> way;      // else the table says
    std::optional<CopyShape> shape;  // the engine's shape_of() the fragments, if it is known
};

enum class CopyEnd : uint8_t {
    not_yet,
    whole,      // everything was copied
    cancelled,  // not everything was; what the destination holds is of no use
};

struct CopyStatus {
    CopyEnd end = CopyEnd::not_yet;
    uint64_t done_bytes = 0;  // once ended; exact
    CopyWay way = CopyWay::engines;
};

class CopyEngine {
 public:
    // invalid: an option is out of its range. full: device or pinned memory does not suffice.
    // unsupported: no device, or the runtime refuses.
    static Result<std::unique_ptr<CopyEngine>> create(const CopyEngineOptions& options);

    // Cancels and waits for what is queued.
    ~CopyEngine();
    CopyEngine(const CopyEngine&) = delete;
    CopyEngine& operator=(const CopyEngine&) = delete;

    // busy: too many copies or descriptors are under way. invalid: it can never fit, or checksums
    // are asked of a copy engine. unsupported: the runtime failed; what was queued still ends.
    Result<CopyTicket> submit(const CopyRequest& request);

    // What a copy of these would need. submit() counts it where it is not told, which takes a few
    // nanoseconds a fragment before anything moves: a twentieth of the time that 4 KiB take. Copies
    // of the same pages of every layer have one shape.
    CopyShape shape_of(std::span<const CopyFragment> fragments, CopyDirection direction) const;

    // Idempotent; no effect on what has ended. Tickets of copies_max later ones ago are unknown and
    // have ended.
    void cancel(CopyTicket ticket);
    CopyStatus status(CopyTicket ticket);
    bool has_ended(CopyTicket ticket) { return status(ticket).end != CopyEnd::not_yet; }

    // What the stream does after this call happens after the copy.
    Status queue_wait(CUstream_st* stream, CopyTicket ticket);

    // timeout: not ended by then. Asks again and again, without sleeping.
    Status wait(CopyTicket ticket, int64_t timeout_ns);

    const CopyEngineOptions& options() const;
    // About 150 ms: measures every way with buffers of its own and goes by that from now on.
    // REQUIRES: nothing is under way, here or elsewhere on the device.
    Status calibrate();

 private:
    struct State;
    explicit CopyEngine(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace quire::kernels::cuda
