// Pinned places that slabs pass through whose own memory the device does not read or write.
//
// A bounded number; who finds none waits until a copy has ended, which copies do without anybody's
// help. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/copy/pinned_pool.h"

namespace quire {

class Bounce {
 public:
    // As many places of `place_bytes` as fit, at least one. As PinnedPool::create().
    static Result<std::unique_ptr<Bounce>> create(uint64_t bytes, size_t place_bytes, int device);

    // One place at least, `most` at most.
    std::vector<std::byte*> take(size_t most);
    void give(std::span<std::byte* const> places);

 private:
    Bounce() = default;

    std::unique_ptr<kernels::cuda::PinnedPool> pool_;
    std::mutex mutex_;
    std::condition_variable given_;
    std::vector<std::byte*> free_;
};

}  // namespace quire
