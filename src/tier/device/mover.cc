#include "tier/device/mover.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <cuda_runtime_api.h>

namespace quire {
namespace {

using kernels::cuda::CopyEnd;

// How often events are looked at: a copy of a slab takes longer.
constexpr std::chrono::microseconds kLookEvery{20};

}  // namespace

Result<std::unique_ptr<DeviceMover>> DeviceMover::create(
    const kernels::cuda::CopyEngineOptions& options, int device) {
    std::unique_ptr<DeviceMover> mover(new DeviceMover());
    auto engine = kernels::cuda::CopyEngine::create(options);
    if (!engine.ok()) return engine.error();
    mover->engine_ = std::move(*engine);
    if (cudaStreamCreateWithFlags(&mover->fences_, cudaStreamNonBlocking) != cudaSuccess)
        return make_error(Code::unsupported, "the CUDA runtime makes no stream for fences");
    // tidy: allow(thread): the copy engine's one thread, joined in the destructor
    mover->thread_ = std::thread([raw = mover.get(), device] { raw->run(device); });
    return mover;
}

DeviceMover::~DeviceMover() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    more_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (fences_ != nullptr) cudaStreamDestroy(fences_);
}

void DeviceMover::submit(Copy copy) {
    {
        std::lock_guard lock(mutex_);
        copies_.push_back(std::move(copy));
    }
    more_.notify_one();
}

void DeviceMover::when(CUevent_st* event, std::function<void()> then) {
    {
        std::lock_guard lock(mutex_);
        new_waits_.push_back({event, std::move(then)});
    }
    more_.notify_one();
}

void DeviceMover::run(int device) {
    cudaSetDevice(device);
    std::deque<Copy> mine;
    std::unique_lock lock(mutex_);
    for (;;) {
        const auto anything = [this] {
            return stopping_ || !copies_.empty() || !new_waits_.empty();
        };
        const bool idle = mine.empty() && flights_.empty() && waits_.empty();
        if (idle)
            more_.wait(lock, anything);
        else
            more_.wait_for(lock, kLookEvery, anything);
        if (stopping_ && idle && copies_.empty() && new_waits_.empty()) return;
        std::ranges::move(copies_, std::back_inserter(mine));
        copies_.clear();
        std::ranges::move(new_waits_, std::back_inserter(waits_));
        new_waits_.clear();
        lock.unlock();
        while (!mine.empty() && queue(mine.front())) mine.pop_front();
        look();
        lock.lock();
    }
}

// False: the engine is busy; later.
bool DeviceMover::queue(Copy& copy) {
    const auto ticket =
        engine_->submit({.fragments = copy.fragments, .direction = copy.direction, .after = {}});
    if (ticket.code() == Code::busy) return false;
    Status queued = ticket.ok() ? Status() : ticket.error();
    if (queued.ok() && copy.fence != nullptr) {
        queued = engine_->queue_wait(fences_, *ticket);
        if (queued.ok() && cudaEventRecord(copy.fence, fences_) != cudaSuccess)
            queued = make_error(Code::unsupported, "the CUDA runtime records no event");
    }
    if (!queued.ok()) {
        cudaDeviceSynchronize();  // what was queued has ended then
        copy.ended(queued);
        return true;
    }
    if (copy.fenced) copy.fenced();
    flights_.push_back({*ticket, std::move(copy.ended)});
    return true;
}

// Calls back who waits for what has happened.
void DeviceMover::look() {
    std::vector<std::function<void()>> happened;
    std::erase_if(flights_, [&](Flight& flight) {
        const CopyEnd end = engine_->status(flight.ticket).end;
        if (end == CopyEnd::not_yet) return false;
        happened.push_back([end, ended = std::move(flight.ended)] {
            ended(end == CopyEnd::whole
                      ? Status()
                      : make_error(Code::io, "a copy of the device's memory was not whole"));
        });
        return true;
    });
    std::erase_if(waits_, [&](Wait& wait) {
        if (cudaEventQuery(wait.event) == cudaErrorNotReady) return false;
        happened.push_back(std::move(wait.then));
        return true;
    });
    for (const auto& call : happened) call();
}

}  // namespace quire
