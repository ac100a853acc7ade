// IoWindow: a bounded number of requests in flight on a shared engine, the rest waiting in line.
//
// Belongs to one thread. Completions arrive on the engine's thread and are posted to the owner by
// the `posted` callback; the owner then calls completed(). pump() again afterwards keeps the device
// busy.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/io.h"

namespace quire {

class IoWindow {
 public:
    // `posted` is called once per request, with the request's tag, from any thread, and must not
    // block.
    using Posted = std::function<void(uint64_t tag, Result<size_t> result)>;

    IoWindow(IoEngine& io, size_t depth, Posted posted)
        : io_(io), depth_(depth), posted_(std::move(posted)) {}

    void push(const IoRequest& request) { waiting_.push_back(request); }
    // Submits what fits. A full engine is no error: the next pump tries again.
    void pump();
    void completed() { in_flight_--; }

    size_t in_flight() const { return in_flight_; }
    size_t waiting() const { return waiting_.size(); }
    bool idle() const { return in_flight_ == 0 && waiting_.empty(); }
    bool has_room() const { return in_flight_ + waiting_.size() < depth_; }
    // Work waits that no completion of ours will restart: poll.
    bool stalled() const { return in_flight_ == 0 && !waiting_.empty(); }

 private:
    bool submit(std::span<const IoRequest> batch);

    IoEngine& io_;
    size_t depth_;
    Posted posted_;
    std::deque<IoRequest> waiting_;
    std::vector<IoRequest> batch_;
    size_t in_flight_ = 0;
};

}  // namespace quire
