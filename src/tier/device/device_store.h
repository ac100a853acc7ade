// DeviceStore: G1 on a GPU, slabs in equal slots of the device's memory.
//
// The verbs of a tier move slabs between the host and the device by a copy engine, through pinned
// memory where the caller's is not. Kernels read slabs where they lie: hold() gives the addresses
// that a block table needs. A slot is used again only when nobody holds its block and events say
// that nothing queued on the device, copies or kernels, reads or writes it any more.
//
// The verbs below may be called from any thread in which the store's device is current.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/kv_layout.h"
#include "kernels/cuda/copy/engine.h"
#include "kernels/cuda/copy/pinned_pool.h"
#include "tier/device/device_load.h"
#include "tier/tier.h"

namespace quire {

struct DeviceOptions {
    KvLayout layout;
    uint64_t capacity_bytes = 0;  // of the device's memory
    int device = 0;               // that is current
    std::string evict = "lru";    // a row of eviction_table()
    uint32_t threads = 2;         // that copy what is not pinned, and as many that verify
    uint32_t queue_max = 1024;    // batches not yet done; more is busy
    uint64_t bounce_bytes = uint64_t{64} << 20;
    // Null, or a pool that outlives the store: slabs there need no other pinned memory.
    const kernels::cuda::PinnedPool* pinned = nullptr;
    kernels::cuda::CopyEngineOptions copies;
};

class DeviceStore : public TierStore {
 public:
    // Where blocks lie on the device; null: a miss. Each that is there is held once more.
    virtual void hold(std::span<const BlockKey> keys, std::span<std::byte*> slabs) = 0;
    // Lets go what was held, as soon as all that is queued on the stream has happened. busy: too
    // many calls before it wait for that.
    virtual Status let_go(std::span<const BlockKey> keys, CUstream_st* stream) = 0;
    // Puts slabs, all of one group and in the pinned pool, and holds those that get a place, or
    // have one, until they are let go: also those that then turn out to be damaged. The bytes stay
    // the caller's until `done`, which gets what put() would. invalid: no such slabs. busy, full as
    // for put().
    virtual Result<std::shared_ptr<DeviceLoad>> load(std::vector<TierPut> batch, TierDone done) = 0;
};

// invalid: an unknown policy. full: the memory is not there, or too small for a block. unsupported,
// io: as CopyEngine::create and PinnedPool::create.
Result<std::unique_ptr<DeviceStore>> open_device_store(const DeviceOptions& options);

}  // namespace quire
