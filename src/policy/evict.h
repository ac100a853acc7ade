// Eviction policies: which resident block to give up next. Pure bookkeeping over small integers: no
// I/O, no clock, no randomness, the same calls give the same answers. One row per policy in
// eviction_table().
//
// The caller names blocks by dense ids (slot numbers). It offers only what may go: `evictable` says
// no for pinned blocks and for blocks whose children are resident, so parents never leave before
// children. A yes is a take: the policy gives up exactly the ids for which it heard yes, so the
// caller may already count them as gone while it answers, and a parent can follow its last child
// within one call.
//
// One use of a chain by a request is: insert() what was new (in any order, while the request still
// pins it), then touch() all its blocks, hits and new ones, last to first, when the request ends.
// The first touch() after an insert() is part of the same use. Not thread-safe; O(1) amortised per
// call but for skipped candidates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/hash128.h"

namespace quire {

struct EvictBlock {
    Hash128 hash;             // identity, for ghosts: a block that comes back is recognised
    uint32_t depth = 0;       // blocks from the root
    bool last_block = false;  // the last full block of a prompt: often never asked for again
    uint64_t cost_ns = 0;     // time to rebuild it by computing
};

// Borrowed for one call; `context` is the caller's.
struct Evictable {
    bool (*ask)(void* context, uint32_t id);
    void* context;
    bool operator()(uint32_t id) const { return ask(context, id); }
};

class EvictionPolicy {
 public:
    virtual ~EvictionPolicy() = default;
    virtual void insert(uint32_t id, const EvictBlock& block) = 0;
    // The block was used by a request. Callers touch a chain's blocks last to first, so that in
    // order of recency parents outlive children.
    virtual void touch(uint32_t id) = 0;
    // The block left for a reason of its own (not as a victim).
    virtual void erase(uint32_t id) = 0;
    // Removes up to out.size() evictable blocks from the policy, worst first, and returns how many.
    // Fewer than asked means nothing else may go now.
    virtual size_t take_victims(std::span<uint32_t> out, Evictable evictable) = 0;
    virtual size_t size() const = 0;
};

struct EvictionRow {
    std::string_view name;  // as in --evict NAME
    std::string_view about;
    std::unique_ptr<EvictionPolicy> (*make)(uint32_t capacity);  // ids are in [0, capacity)
};

std::span<const EvictionRow> eviction_table();
// nullptr for an unknown name.
const EvictionRow* find_eviction(std::string_view name);

}  // namespace quire
