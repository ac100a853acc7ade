// Lease: one request's hold on KV pages. Internal to the cache; the engine sees a LeaseId.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/cache_types.h"
#include "cache/load_progress.h"
#include "index/prefix_index.h"
#include "tier/arena/slot_arena.h"

namespace quire {

// The block table of one group: entry i belongs to block i; null where the lease holds nothing
// (below a window, or not reached yet).
struct LeaseTable {
    std::vector<std::byte*> slabs;
    std::vector<uint32_t> slots;
};

// What is constant for the keys of one tenant: its dense number and a key scope per group.
struct TenantKeys {
    uint16_t number = 0;
    std::vector<Hash128> scopes;

    BlockKey key(uint32_t group, const PrefixHash& prefix) const {
        return block_key(scopes[group], prefix);
    }
};

// A load that the lease waits for.
struct LandingRef {
    uint64_t op = 0;
    uint32_t group = 0;
    std::shared_ptr<LoadProgress> progress;
};

struct Lease {
    LeaseId id = 0;
    const TenantKeys* keys = nullptr;
    std::string tenant;
    std::string salt;
    BlockChain chain;
    uint32_t prompt_tokens = 0;
    int64_t deadline_ns = 0;
    int64_t wait_until_ns = 0;  // no longer than this for another lease's computing

    LeaseInfo info;
    uint32_t computed_tokens = 0;
    std::vector<LeaseTable> tables;  // per group
    std::vector<BlockIndex> known;   // pinned index blocks: [0, known.size()) of the chain
    uint32_t registered_blocks = 0;  // chain blocks [.., registered) announced as being computed
    bool publishing = true;          // off once the index refused a block

    uint32_t pending_loads = 0;
    std::vector<LandingRef> landings;  // of the loads that are pending, or were a moment ago
    bool load_failed = false;
    int attempts = 0;
    bool reuse = true;

    explicit Lease(BlockChain c) : chain(std::move(c)) {}
    Namespace ns() const { return {tenant, salt}; }
};

}  // namespace quire
