// What a device store is made of, and its verbs that move nothing.
#include "tier/device/device_store.h"

#include <algorithm>
#include <chrono>

#include <cuda_runtime_api.h>

#include "base/check.h"
#include "tier/device/device_state.h"

namespace quire {
namespace {

constexpr size_t kEvents = 64;  // calls of let_go() that wait at once
constexpr uint32_t kTasksMax = 1 << 16;

size_t largest_slab(const KvLayout& layout) {
    size_t bytes = 0;
    for (size_t g = 0; g < layout.groups.size(); ++g) bytes = std::max(bytes, layout.slab_bytes(g));
    return bytes;
}

}  // namespace

DeviceState::DeviceState(const DeviceOptions& options, Parts parts, const EvictionRow& evict)
    : options_(options),
      memory_(std::move(parts.memory)),
      entries_(std::move(parts.arena), false, evict),
      events_(std::move(parts.events)),
      free_events_(events_),
      bounce_(std::move(parts.bounce)),
      mover_(std::move(parts.mover)),
      checks_("quire-g1-check", options.threads, kTasksMax),
      starts_("quire-g1-start", options.threads, kTasksMax) {}

DeviceState::~DeviceState() {
    {
        std::unique_lock lock(idle_mutex_);
        idle_.wait(lock, [this] { return pending_ == 0; });
    }
    starts_.drain();
    checks_.drain();
    mover_.reset();  // after what was let go
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

TierInfo DeviceState::info() const {
    return {Tier::g1, "device", {.lists = true}, entries_.capacity_bytes()};
}

void DeviceState::contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < keys.size(); ++i) {
        const HostEntry* entry = entries_.find(keys[i]);
        present[i] = entry && entry->ready && !entry->doomed;
    }
}

void DeviceState::erase(std::span<const BlockKey> keys) {
    std::lock_guard lock(mutex_);
    entries_.doom(keys);
}

Result<std::vector<TierEntry>> DeviceState::list() const {
    std::lock_guard lock(mutex_);
    return entries_.list();
}

TierStats DeviceState::stats() const {
    uint64_t pending = 0;
    {
        std::lock_guard lock(idle_mutex_);
        pending = pending_;
    }
    std::lock_guard lock(mutex_);
    TierStats stats = stats_;
    stats.capacity_bytes = entries_.capacity_bytes();
    stats.used_bytes = entries_.used_bytes();
    stats.blocks = entries_.blocks();
    stats.evicted_blocks = entries_.evicted_blocks();
    stats.pending = pending;
    return stats;
}

Status DeviceState::flush(int64_t timeout_ns) {
    std::unique_lock lock(idle_mutex_);
    const bool idle = idle_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                     [this] { return pending_ == 0; });
    if (!idle) return make_error(Code::timeout, "copies of the device store are still under way");
    return {};
}

void DeviceState::hold(std::span<const BlockKey> keys, std::span<std::byte*> slabs) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < keys.size(); ++i) {
        HostEntry* entry = entries_.find(keys[i]);
        slabs[i] = nullptr;
        if (!entry || !entry->ready || entry->doomed) continue;
        ++entry->users;
        entries_.touch(*entry);
        slabs[i] = slot(*entry);
    }
}

Status DeviceState::let_go(std::span<const BlockKey> keys, CUstream_st* stream) {
    cudaEvent_t event = nullptr;
    {
        std::lock_guard lock(mutex_);
        if (free_events_.empty())
            return make_error(Code::busy, "too many blocks wait to be let go by the device");
        event = free_events_.back();
        free_events_.pop_back();
    }
    if (cudaEventRecord(event, stream) != cudaSuccess) {
        std::lock_guard lock(mutex_);
        free_events_.push_back(event);
        return make_error(Code::unsupported, "the CUDA runtime records no event");
    }
    mover_->when(event, [this, event, held = std::vector(keys.begin(), keys.end())] {
        std::lock_guard lock(mutex_);
        free_events_.push_back(event);
        for (const BlockKey& key : held) {
            HostEntry* entry = entries_.find(key);
            QUIRE_CHECK(entry && entry->users > 0, "a block was let go that nobody held");
            entries_.drop_user(*entry);
        }
    });
    return {};
}

Status DeviceState::enter() {
    std::lock_guard lock(idle_mutex_);
    if (pending_ >= options_.queue_max)
        return make_error(Code::busy, "the device store's queue is full");
    ++pending_;
    return {};
}

void DeviceState::leave() {
    std::lock_guard lock(idle_mutex_);
    --pending_;
    idle_.notify_all();
}

void DeviceState::run(ThreadPool& pool, std::function<void()> task) {
    if (!pool.submit(task).ok()) task();
}

bool DeviceState::is_pinned(std::span<const std::byte> bytes) const {
    if (options_.pinned == nullptr) return false;
    const std::byte* begin = options_.pinned->data();
    const std::byte* end = begin + options_.pinned->bytes();
    return std::greater_equal()(bytes.data(), begin) &&
           std::less_equal()(bytes.data() + bytes.size(), end);
}

Result<std::unique_ptr<DeviceStore>> open_device_store(const DeviceOptions& options) {
    const EvictionRow* evict = find_eviction(options.evict);
    if (!evict) return make_error(Code::invalid, "unknown eviction policy '" + options.evict + "'");
    QUIRE_TRY(options.layout.validate());
    DeviceState::Parts parts;
    auto memory = DeviceMemory::create(options.capacity_bytes);
    if (!memory.ok()) return memory.error();
    parts.memory = std::move(*memory);
    auto arena = SlotArena::over(options.layout, parts.memory.bytes(), 1);
    if (!arena.ok()) return arena.error();
    parts.arena = std::move(*arena);
    auto bounce =
        Bounce::create(options.bounce_bytes, largest_slab(options.layout), options.device);
    if (!bounce.ok()) return bounce.error();
    parts.bounce = std::move(*bounce);
    kernels::cuda::CopyEngineOptions copies = options.copies;
    if (options.pinned != nullptr)  // a registration ends with a slice
        copies.boundary_bytes = std::min(copies.boundary_bytes, options.pinned->slice_bytes());
    auto mover = DeviceMover::create(copies, options.device);
    if (!mover.ok()) return mover.error();
    parts.mover = std::move(*mover);
    for (size_t i = 0; i < kEvents; ++i) {
        cudaEvent_t event = nullptr;
        if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
            for (cudaEvent_t made : parts.events) cudaEventDestroy(made);
            return make_error(Code::unsupported, "the CUDA runtime makes no events");
        }
        parts.events.push_back(event);
    }
    return std::unique_ptr<DeviceStore>(new DeviceState(options, std::move(parts), *evict));
}

}  // namespace quire
