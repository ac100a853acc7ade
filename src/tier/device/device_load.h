// A prefix's slabs on their way from pinned memory of the host to a device, layer by layer, beside
// a model that computes: a stream waits for a layer, not for the load.
//
// Shared by who asked for the load and by the store, which outlives it. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "tier/landing.h"

struct CUevent_st;
struct CUstream_st;

namespace quire {

class DeviceLoad {
 public:
    // `checks`: how many parts each piece is verified in.
    DeviceLoad(std::vector<SlabPiece> pieces, std::vector<std::byte*> slabs, size_t checks);
    ~DeviceLoad();
    DeviceLoad(const DeviceLoad&) = delete;
    DeviceLoad& operator=(const DeviceLoad&) = delete;

    // Of each block asked for, its address on the device; null: it got no place.
    std::span<std::byte* const> slabs() const { return slabs_; }
    std::span<const SlabPiece> pieces() const { return pieces_; }

    // What the stream does after this call sees layers [0, layer] of every block, verified. Waits
    // for the verification and until the copies are queued, not for the copies. timeout; or
    // corrupt: some block will never be whole, and what was computed on it is void.
    Status wait_layer(uint32_t layer, CUstream_st* stream, int64_t timeout_ns);

    // The rest is the store's.
    Status make_events();  // unsupported: the runtime makes none
    CUevent_st* fence(size_t piece) const { return parts_[piece].fence; }
    void fenced(size_t piece);
    void verified(size_t piece);  // one of its checks
    void failed();

 private:
    struct Part {
        CUevent_st* fence = nullptr;
        bool fenced = false;  // under mutex_, as the next one
        size_t unverified = 0;
    };
    bool is_there(size_t pieces) const;

    const std::vector<SlabPiece> pieces_;
    const std::vector<std::byte*> slabs_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Part> parts_;  // one a piece
    bool failed_ = false;      // under mutex_
};

}  // namespace quire
