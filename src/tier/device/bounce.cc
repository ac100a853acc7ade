#include "tier/device/bounce.h"

#include <algorithm>

namespace quire {

Result<std::unique_ptr<Bounce>> Bounce::create(uint64_t bytes, size_t place_bytes, int device) {
    const uint64_t places = std::max<uint64_t>(1, bytes / place_bytes);
    auto pool =
        kernels::cuda::PinnedPool::create({.bytes = places * place_bytes, .device = device});
    if (!pool.ok()) return pool.error();
    std::unique_ptr<Bounce> made(new Bounce());
    made->pool_ = std::move(*pool);
    for (uint64_t i = 0; i < places; ++i)
        made->free_.push_back(made->pool_->data() + i * place_bytes);
    return made;
}

std::vector<std::byte*> Bounce::take(size_t most) {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [this] { return !free_.empty(); });
    const size_t n = std::min(most, free_.size());
    std::vector<std::byte*> taken(free_.end() - static_cast<ptrdiff_t>(n), free_.end());
    free_.resize(free_.size() - n);
    return taken;
}

void Bounce::give(std::span<std::byte* const> places) {
    {
        std::lock_guard lock(mutex_);
        free_.insert(free_.end(), places.begin(), places.end());
    }
    given_.notify_all();
}

}  // namespace quire
