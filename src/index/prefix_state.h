// What PrefixIndex is made of; private to src/index.
//
// A *run* is a path of the tree without branches, stored in consecutive block positions: block b's
// parent is b - 1 unless b starts its run. A block's position is its BlockIndex and never changes;
// only the boundaries between runs do (split where chains part, joined again when a branch goes).
// Per-block facts lie in arrays of their own, so a lookup compares half hashes in sequence and a
// match reads one presence byte a block and group. Whatever only branch points need (children,
// counts) lies in the run.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "index/block_pool.h"
#include "index/edge_table.h"
#include "index/lazy_array.h"
#include "index/prefix_index.h"

namespace quire {

using RunId = uint32_t;
inline constexpr RunId kNoRun = ~RunId{0};
// Tiers whose slot numbers are kept; of the others only presence is known.
inline constexpr size_t kSlotTiers = 2;

struct Run {
    uint32_t start = 0;
    uint32_t length = 0;
    BlockIndex parent = kNoBlock;  // always the last block of its run
    uint32_t depth = 0;            // of the first block
    RunId first_child = kNoRun;
    RunId next = kNoRun;  // siblings
    RunId previous = kNoRun;
    uint16_t tenant = 0;

    uint32_t end() const { return start + length; }
    BlockIndex last() const { return start + length - 1; }
};

struct GroupArrays {
    LazyArray<uint8_t> present;  // TierSet bits
    std::array<LazyArray<uint32_t>, kSlotTiers> slots;
};

struct PrefixIndex::State {
    IndexOptions options;
    size_t group_count = 0;
    size_t run_counts = 0;  // counters a run has: groups x tiers

    // The low half of a hash gives up its lowest bit to say "continues the run of the position
    // before", so that one comparison a block walks a run and stops at its end; never set on a free
    // position. The bit itself moves to the top of the block's pins.
    LazyArray<uint64_t> hash_hi;
    LazyArray<uint64_t> hash_lo;
    LazyArray<uint32_t> pin_word;
    LazyArray<RunId> run_of;
    std::vector<GroupArrays> groups;
    LazyArray<Run> runs;
    LazyArray<uint32_t> child_counts;  // of each run's last block, by group and tier
    RunId first_free_run = kNoRun;     // linked by Run::next
    uint32_t runs_peak = 0;
    uint32_t live_runs = 0;

    std::optional<BlockPool> pool;
    EdgeTable edges{0};
    RunId first_root = kNoRun;
    uint64_t blocks = 0;
    uint64_t pinned_blocks = 0;
    std::vector<uint64_t> tenant_blocks;

    static Result<std::unique_ptr<State>> create(const IndexOptions& options);

    // Reading.
    BlockIndex parent_of(BlockIndex block) const {
        const Run& run = runs[run_of[block]];
        return block == run.start ? run.parent : block - 1;
    }
    static constexpr uint64_t kContinues = 1;
    static constexpr uint32_t kPinMask = ~0u >> 1;
    PrefixHash hash_of(BlockIndex block) const {
        return {{hash_hi[block], (hash_lo[block] & ~kContinues) | pin_word[block] >> 31}};
    }
    // All but the bit that lies elsewhere: 127 bits are as good.
    bool same_hash(BlockIndex block, const PrefixHash& hash) const {
        return ((hash_lo[block] ^ hash.value.lo) & ~kContinues) == 0 &&
               hash_hi[block] == hash.value.hi;
    }
    uint32_t pins(BlockIndex block) const { return pin_word[block] & kPinMask; }
    BlockIndex find_edge(BlockIndex parent, const PrefixHash& hash) const;
    uint32_t* counts(RunId run) { return child_counts.data() + size_t{run} * run_counts; }
    const uint32_t* counts(RunId run) const {
        return child_counts.data() + size_t{run} * run_counts;
    }
    uint8_t present_anywhere(BlockIndex block) const;
    bool live(BlockIndex block) const {
        return block < pool->top() && run_of[block] != BlockPool::kFree;
    }
    // How many leading blocks of the chain the run that starts at `first` shares. Compares the low
    // half of each hash and all of the last one: a chain hash covers all blocks before it.
    uint32_t same_blocks(BlockIndex first, std::span<const PrefixHash> chain) const;
    // Writes the blocks of the chain as far as they are known; returns how many.
    uint32_t walk(std::span<const PrefixHash> chain, std::span<BlockIndex> out) const;

    // Runs.
    RunId new_run(const Run& run);
    void free_run(RunId id);
    void add_edge(BlockIndex run_start);
    void remove_edge(BlockIndex run_start);
    void link_child(RunId id);
    void unlink_child(RunId id);
    RunId& child_list(BlockIndex parent);
    void own_blocks(uint32_t start, uint32_t length, RunId id);
    // Afterwards `last` ends its run.
    void split_after(BlockIndex last);
    // Joins a run with its only child when that lies right behind it.
    void try_join(RunId id);

    // Changing.
    void fill(uint32_t start, std::span<const PrefixHash> hashes, bool pin_new);
    uint32_t extend(RunId id, std::span<const PrefixHash> chain, bool pin_new);
    uint32_t add_run(BlockIndex parent, std::span<const PrefixHash> chain, uint16_t tenant,
                     bool pin_new);
    void count_child(BlockIndex block, uint32_t group, Tier tier, int change);
    // Forgets `block` and then its ancestors, as long as nothing holds them.
    void forget_unused(BlockIndex block);
    void remove_leaf(BlockIndex block);
    uint64_t memory_bytes() const;
};

}  // namespace quire
