// IoWindow: a bounded number of requests in flight on a shared engine, the rest waiting in line.
//
// A completion sends the next request on its way itself, on the engine's thread, so that the device
// stays busy however late the owner gets to run; then it is handed to the owner by `posted`. Push,
// pump and the questions are the owner's, one thread. Nothing refers to the window after it is gone
// but completions that are just returning, and those hold what they need.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/io.h"

namespace quire {

class IoWindow {
 public:
    // Called once per request, with the request's tag, from any thread; must not block.
    using Posted = std::function<void(uint64_t tag, Result<size_t> result)>;

    IoWindow(IoEngine& io, size_t depth, Posted posted)
        : state_(std::make_shared<State>(io, depth, std::move(posted))) {}

    void push(const IoRequest& request);
    // Submits what fits. A full engine is no error: the next completion or pump tries again.
    void pump() { state_->pump(state_); }

    // There is less ahead than keeps the device busy for a while.
    bool has_room() const;
    // Work waits that no completion of ours will restart: poll.
    bool stalled() const;

 private:
    struct State {
        State(IoEngine& engine, size_t most, Posted to)
            : io(engine), depth(most), posted(std::move(to)) {}
        void pump(const std::shared_ptr<State>& self);
        bool submit(const std::shared_ptr<State>& self, std::span<const IoRequest> batch);
        void finish(const std::shared_ptr<State>& self, uint64_t tag, const Result<size_t>& result);

        IoEngine& io;
        const size_t depth;
        const Posted posted;
        std::mutex mutex;
        std::deque<IoRequest> waiting;
        std::vector<IoRequest> batch;
        size_t in_flight = 0;
    };

    std::shared_ptr<State> state_;
};

}  // namespace quire
