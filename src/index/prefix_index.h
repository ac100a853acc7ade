// PrefixIndex: which prefix blocks exist, and where.
//
// A path-compressed radix tree over chains of PrefixHash. Every known block has a dense BlockIndex
// that stays the same until it is forgotten; per block and group the index keeps one 32-bit slot
// per local tier (a slot number in G1 or G2; for G3 only presence counts), a pin count and the
// number of children resident in each tier, so that "may this go?" is O(1). A block with no
// location, no pin and no child is forgotten at once. Memory is bounded by max_blocks,
// deterministic, no I/O, no clock.
//
// Not thread-safe: owned by the thread that owns the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/hash128.h"
#include "core/kv_layout.h"
#include "core/tier.h"

namespace quire {

using BlockIndex = uint32_t;
inline constexpr BlockIndex kNoBlock = ~BlockIndex{0};
inline constexpr uint32_t kNoSlot = ~uint32_t{0};

// What a group needs for a prefix of n blocks to be usable: full needs blocks [0, n); window needs
// only the blocks that hold keys a query at position n * block_tokens can see. Of either, only
// blocks [kept_from, kept_end): others are never there, nor missed.
struct GroupNeed {
    KvKind kind = KvKind::full;
    uint32_t window_tokens = 0;
    uint32_t kept_from = 0;
    uint32_t kept_end = ~0u;
};

struct IndexOptions {
    uint32_t max_blocks = 1 << 20;
    uint32_t block_tokens = 16;
    std::vector<GroupNeed> groups;  // 1 to kMaxGroups
};

enum class MatchEnd : uint8_t {
    whole_chain,   // every block offered can be served
    never_seen,    // the next block's hash is not known
    not_resident,  // known, but a group that needs a block no longer has it in any tier asked for
};

struct Match {
    uint32_t blocks = 0;        // longest prefix that every group can serve
    uint32_t known_blocks = 0;  // longest prefix whose hashes are known
    MatchEnd end = MatchEnd::never_seen;
    uint32_t group = 0;  // not_resident: the first group that lacks the block that ends the match,
    uint32_t block = 0;  // and that block's place in the chain (always == blocks)
};

struct IndexStats {
    uint64_t blocks = 0;
    uint64_t memory_bytes =
        0;  // everything the index ever touched, slack and page rounding included
    uint64_t pinned_blocks = 0;
};

class PrefixIndex {
 public:
    static Result<std::unique_ptr<PrefixIndex>> create(const IndexOptions& options);
    ~PrefixIndex();

    // Walks the chain; writes the BlockIndex of each known block to `out` and returns how many are
    // known. REQUIRES: out.size() >= chain.size().
    // Hashes must be chain hashes (core/chain.h): each covers all blocks before it, so a run is
    // compared by half hashes and confirmed by the whole of the last equal one.
    uint32_t find(std::span<const PrefixHash> chain, std::span<BlockIndex> out) const;

    // The longest usable prefix of `known` (as find() wrote it) counting only locations in `tiers`.
    // `chain_blocks` is the length of the chain that was looked up.
    Match match(std::span<const BlockIndex> known, size_t chain_blocks, TierSet tiers) const;

    // Every usable prefix, not just the longest: ends[i] = 1 if blocks [0, i] can serve every group
    // (a window group may fail in the middle and serve again later), so that a shorter cut is
    // chosen only where it works. `ends` may be empty. Returns the longest, as match() does.
    uint32_t servable(std::span<const BlockIndex> known, TierSet tiers,
                      std::span<uint8_t> ends) const;

    // Makes every block of the chain known; writes their indexes to `out` (>= chain.size()). New
    // blocks belong to `tenant` (a small dense number) and are pinned once each if `pin_new`. full
    // when max_blocks is reached: blocks before that point stay known, `out` beyond is kNoBlock. A
    // new block without a pin stays until a clear_location() or unpin() leaves it, or its last
    // child, with nothing.
    Status insert(std::span<const PrefixHash> chain, uint16_t tenant, bool pin_new,
                  std::span<BlockIndex> out);

    // Locations. Setting the first location of a block makes it count as a resident child of its
    // parent in that tier and group. Clearing may forget the block (and then its childless
    // ancestors).
    void set_location(BlockIndex block, uint32_t group, Tier tier, uint32_t slot);
    void clear_location(BlockIndex block, uint32_t group, Tier tier);
    // kNoSlot if not there; 0 if there in a tier below G2, whose slots are not kept.
    uint32_t slot(BlockIndex block, uint32_t group, Tier tier) const;
    TierSet tiers(BlockIndex block, uint32_t group) const;
    uint32_t resident_children(BlockIndex block, uint32_t group, Tier tier) const;

    // A pinned block is never forgotten. Pins count.
    void pin(BlockIndex block);
    void unpin(BlockIndex block);
    uint32_t pins(BlockIndex block) const;

    PrefixHash hash(BlockIndex block) const;
    BlockIndex parent(BlockIndex block) const;  // kNoBlock for a first block
    uint32_t depth(BlockIndex block) const;     // blocks before it
    uint16_t tenant(BlockIndex block) const;
    uint64_t tenant_blocks(uint16_t tenant) const;
    // Some known child of `parent` (kNoBlock: of any root), for explaining a miss. Writes up to
    // out.size() children and returns how many were written.
    size_t children(BlockIndex parent, std::span<BlockIndex> out) const;

    IndexStats stats() const;
    // Verifies every invariant (tests): counts, links, slots. bug with the first one that fails.
    Status check() const;

    PrefixIndex(const PrefixIndex&) = delete;
    PrefixIndex& operator=(const PrefixIndex&) = delete;

 private:
    struct State;
    explicit PrefixIndex(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace quire
