// HostStore: G2, a pool of slabs in host memory.
//
// Same slab-sized slots as G1 (tier/arena), or units of 4 KiB for slabs of any size; a table from
// key to place, and an eviction policy that gives up children before parents (host_entries.h).
// Copies run on a few worker threads; a get copies a layer and checks its CRC while it is still in
// the cache, so that verification costs little beside the copy.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/kv_layout.h"
#include "tier/tier.h"

namespace quire {

struct HostOptions {
    KvLayout layout;
    uint64_t capacity_bytes = 0;
    // Not empty: the pool lies here and not in memory of its own, and capacity_bytes does not
    // count. Somebody else's, who outlives the store: pinned, so that a GPU reads it by itself.
    std::span<std::byte> memory;
    bool any_size = false;      // for slabs that are packed; gets then know no landing
    std::string evict = "lru";  // a row of eviction_table()
    uint32_t threads = 2;       // that copy
    uint32_t queue_max = 1024;  // batches waiting; more is busy
};

// invalid: an unknown policy, or memory for slabs of any size. full, io: as SlotArena::create.
Result<std::unique_ptr<TierStore>> open_host_store(const HostOptions& options);

}  // namespace quire
