// The one thread that owns a copy engine: copies in, a call back when nothing touches their memory
// any more; and events to wait for on behalf of others.
//
// Bounded by its senders: each copy is of a batch that was itself bounded. A copy's fence is an
// event that streams can wait for: recorded behind the copy, before the copy has ended.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/copy/engine.h"

namespace quire {

class DeviceMover {
 public:
    struct Copy {
        std::vector<kernels::cuda::CopyFragment> fragments;  // check_fragments() is ok
        kernels::cuda::CopyDirection direction = kernels::cuda::CopyDirection::to_device;
        CUevent_st* fence = nullptr;   // null: nobody waits on a stream
        std::function<void()> fenced;  // the fence has been recorded; empty: nobody asks
        // Nothing of the copy is under way any more; what a fragment holds counts only if it is ok.
        std::function<void(const Status&)> ended;
    };

    // As CopyEngine::create().
    static Result<std::unique_ptr<DeviceMover>> create(
        const kernels::cuda::CopyEngineOptions& options, int device);
    // Ends what was accepted.
    ~DeviceMover();

    // Any thread, those that run the functions too. All functions are called on the mover's thread.
    void submit(Copy copy);
    // `then` once the event, which has been recorded, has happened.
    void when(CUevent_st* event, std::function<void()> then);

 private:
    struct Flight {
        kernels::cuda::CopyTicket ticket = 0;
        std::function<void(const Status&)> ended;
    };
    struct Wait {
        CUevent_st* event = nullptr;
        std::function<void()> then;
    };

    DeviceMover() = default;
    void run(int device);
    bool queue(Copy& copy);
    void look();

    std::unique_ptr<kernels::cuda::CopyEngine> engine_;  // the thread's
    CUstream_st* fences_ = nullptr;                      // the thread's, as the next two
    std::vector<Flight> flights_;
    std::vector<Wait> waits_;
    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<Copy> copies_;  // under mutex_, as the next two
    std::vector<Wait> new_waits_;
    bool stopping_ = false;
    // tidy: allow(thread): the copy engine's one thread, joined in the destructor
    std::thread thread_;  // last: it uses everything above
};

}  // namespace quire
