#include "tier/device/device_load.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <cuda_runtime_api.h>

namespace quire {

DeviceLoad::DeviceLoad(std::vector<SlabPiece> pieces, std::vector<std::byte*> slabs, size_t checks)
    : pieces_(std::move(pieces)), slabs_(std::move(slabs)), parts_(pieces_.size()) {
    for (Part& part : parts_) part.unverified = checks;
}

DeviceLoad::~DeviceLoad() {
    for (const Part& part : parts_)
        if (part.fence != nullptr) cudaEventDestroy(part.fence);
}

Status DeviceLoad::make_events() {
    for (Part& part : parts_)
        if (cudaEventCreateWithFlags(&part.fence, cudaEventDisableTiming) != cudaSuccess)
            return make_error(Code::unsupported, "the CUDA runtime makes no event for a layer");
    return {};
}

// The first so many pieces. REQUIRES: mutex_ is held.
bool DeviceLoad::is_there(size_t pieces) const {
    return std::all_of(parts_.begin(), parts_.begin() + static_cast<ptrdiff_t>(pieces),
                       [](const Part& part) { return part.fenced && part.unverified == 0; });
}

Status DeviceLoad::wait_layer(uint32_t layer, CUstream_st* stream, int64_t timeout_ns) {
    const auto last = std::ranges::upper_bound(pieces_, layer, {}, &SlabPiece::end_layer);
    if (last == pieces_.end())
        return make_error(Code::invalid, "a load has no layer " + std::to_string(layer));
    const auto n = static_cast<size_t>(last - pieces_.begin()) + 1;
    {
        std::unique_lock lock(mutex_);
        const bool known = changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                             [&] { return failed_ || is_there(n); });
        if (!known) return make_error(Code::timeout, "a layer has not come yet");
        if (failed_) return make_error(Code::corrupt, "a block of the load cannot be used");
    }
    for (size_t piece = 0; piece < n; ++piece)
        if (cudaStreamWaitEvent(stream, parts_[piece].fence, 0) != cudaSuccess)
            return make_error(Code::unsupported, "the CUDA runtime makes no stream wait");
    return {};
}

void DeviceLoad::fenced(size_t piece) {
    {
        std::lock_guard lock(mutex_);
        parts_[piece].fenced = true;
    }
    changed_.notify_all();
}

void DeviceLoad::verified(size_t piece) {
    {
        std::lock_guard lock(mutex_);
        --parts_[piece].unverified;
    }
    changed_.notify_all();
}

void DeviceLoad::failed() {
    {
        std::lock_guard lock(mutex_);
        failed_ = true;
    }
    changed_.notify_all();
}

}  // namespace quire
