#include "index/prefix_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

Status check_options(const IndexOptions& o) {
    if (o.max_blocks == 0 || o.max_blocks > (1u << 31)) {
        return make_error(Code::invalid, "index: max_blocks is " + std::to_string(o.max_blocks) +
                                             "; it must be 1 to 2147483648");
    }
    if (o.block_tokens == 0 || o.block_tokens > kMaxBlockTokens) {
        return make_error(Code::invalid, "index: block_tokens is " +
                                             std::to_string(o.block_tokens) + "; it must be 1 to " +
                                             std::to_string(kMaxBlockTokens));
    }
    if (o.groups.empty() || o.groups.size() > kMaxGroups) {
        return make_error(Code::invalid, "index: " + std::to_string(o.groups.size()) +
                                             " groups; there must be 1 to " +
                                             std::to_string(kMaxGroups));
    }
    for (size_t g = 0; g < o.groups.size(); ++g) {
        const GroupNeed& need = o.groups[g];
        if (need.kind != KvKind::full && need.kind != KvKind::window) {
            return make_error(Code::unsupported,
                              "index: the kind of group " + std::to_string(g) +
                                  " is reserved; only full and window groups can be matched");
        }
        if (need.kind == KvKind::window && need.window_tokens == 0) {
            return make_error(Code::invalid, "index: window group " + std::to_string(g) +
                                                 " has window_tokens 0; give its width in tokens");
        }
    }
    return {};
}

template <typename T>
Status reserve(LazyArray<T>& array, size_t capacity) {
    auto reserved = LazyArray<T>::reserve(capacity);
    if (!reserved.ok()) return reserved.error();
    array = std::move(*reserved);
    return {};
}

}  // namespace

Result<std::unique_ptr<PrefixIndex::State>> PrefixIndex::State::create(const IndexOptions& o) {
    QUIRE_TRY(check_options(o));
    auto state = std::make_unique<State>();
    state->options = o;
    state->group_count = o.groups.size();
    state->run_counts = o.groups.size() * kTierCount;
    const size_t n = o.max_blocks;
    QUIRE_TRY(reserve(state->hash_hi, n));
    QUIRE_TRY(reserve(state->hash_lo, n));
    QUIRE_TRY(reserve(state->run_of, n));
    QUIRE_TRY(reserve(state->pin_word, n));
    state->groups.resize(o.groups.size());
    for (GroupArrays& group : state->groups) {
        QUIRE_TRY(reserve(group.present, n));
        for (auto& slots : group.slots) QUIRE_TRY(reserve(slots, n));
    }
    QUIRE_TRY(reserve(state->runs, n));
    QUIRE_TRY(reserve(state->child_counts, n * state->run_counts));
    const PoolWords words{state->hash_hi.data(), state->groups[0].slots[0].data(),
                          state->groups[0].slots[1].data()};
    state->pool.emplace(words, state->run_of.data(), o.max_blocks);
    return state;
}

void PrefixIndex::State::add_edge(BlockIndex run_start) {
    edges.grow_if_full([this](BlockIndex b) { return hash_of(b); });
    edges.insert(run_start, runs[run_of[run_start]].parent, hash_of(run_start));
}

void PrefixIndex::State::remove_edge(BlockIndex run_start) {
    const BlockIndex parent = runs[run_of[run_start]].parent;
    edges.erase(run_start, parent, [this](BlockIndex b) { return hash_of(b); });
}

BlockIndex PrefixIndex::State::find_edge(BlockIndex parent, const PrefixHash& hash) const {
    return edges.find(parent, hash, [&](BlockIndex block) { return same_hash(block, hash); });
}

uint8_t PrefixIndex::State::present_anywhere(BlockIndex block) const {
    uint8_t bits = 0;
    for (const GroupArrays& group : groups) bits |= group.present[block];
    return bits;
}

uint32_t PrefixIndex::State::same_blocks(BlockIndex first,
                                         std::span<const PrefixHash> chain) const {
    const uint64_t* lo = hash_lo.data() + first;
    const size_t limit = std::min<size_t>(chain.size(), pool->top() - first);
    size_t same = 1;  // find_edge compared the first
    // Eight at a time: what differs shows up as a bit in the union of differences.
    for (; same + 8 <= limit; same += 8) {
        uint64_t differ = 0;
        for (size_t i = same; i < same + 8; ++i) {
            differ |= lo[i] ^ (chain[i].value.lo | kContinues);
        }
        if (differ != 0) break;
    }
    while (same < limit && lo[same] == (chain[same].value.lo | kContinues)) ++same;
    while (same > 1 && hash_hi[first + same - 1] != chain[same - 1].value.hi) --same;
    return static_cast<uint32_t>(same);
}

uint32_t PrefixIndex::State::walk(std::span<const PrefixHash> chain,
                                  std::span<BlockIndex> out) const {
    BlockIndex parent = kNoBlock;
    size_t done = 0;
    while (done < chain.size()) {
        const BlockIndex first = find_edge(parent, chain[done]);
        if (first == kNoBlock) break;
        const uint32_t same = same_blocks(first, chain.subspan(done));
        for (uint32_t i = 0; i < same; ++i) out[done + i] = first + i;
        done += same;
        parent = first + same - 1;
    }
    return static_cast<uint32_t>(done);
}

RunId PrefixIndex::State::new_run(const Run& run) {
    RunId id = runs_peak;
    if (first_free_run == kNoRun) {
        ++runs_peak;
    } else {
        id = first_free_run;
        first_free_run = runs[id].next;
    }
    ++live_runs;
    runs[id] = run;
    std::fill_n(counts(id), run_counts, 0u);
    return id;
}

void PrefixIndex::State::free_run(RunId id) {
    runs[id] = Run{};
    runs[id].next = first_free_run;
    first_free_run = id;
    --live_runs;
}

RunId& PrefixIndex::State::child_list(BlockIndex parent) {
    return parent == kNoBlock ? first_root : runs[run_of[parent]].first_child;
}

void PrefixIndex::State::link_child(RunId id) {
    RunId& head = child_list(runs[id].parent);
    runs[id].previous = kNoRun;
    runs[id].next = head;
    if (head != kNoRun) runs[head].previous = id;
    head = id;
}

void PrefixIndex::State::unlink_child(RunId id) {
    const Run& run = runs[id];
    if (run.previous == kNoRun) {
        child_list(run.parent) = run.next;
    } else {
        runs[run.previous].next = run.next;
    }
    if (run.next != kNoRun) runs[run.next].previous = run.previous;
}

void PrefixIndex::State::own_blocks(uint32_t start, uint32_t length, RunId id) {
    std::fill_n(run_of.data() + start, length, id);
}

void PrefixIndex::State::split_after(BlockIndex last) {
    const RunId id = run_of[last];
    if (last == runs[id].last()) return;
    const Run whole = runs[id];
    Run front = whole;
    front.length = last + 1 - whole.start;
    Run back = whole;
    back.start = last + 1;
    back.length = whole.length - front.length;
    back.parent = last;
    back.depth = whole.depth + front.length;
    back.next = back.previous = kNoRun;

    // The shorter side gets the new id, so that relabelling stays cheap over many splits.
    const RunId other = new_run(Run{});
    const bool front_moves = front.length < back.length;
    const RunId front_id = front_moves ? other : id;
    const RunId back_id = front_moves ? id : other;
    front.first_child = back_id;
    runs[front_id] = front;
    runs[back_id] = back;
    if (front_moves) {
        own_blocks(front.start, front.length, front_id);
        if (whole.previous == kNoRun) {
            child_list(whole.parent) = front_id;
        } else {
            runs[whole.previous].next = front_id;
        }
        if (whole.next != kNoRun) runs[whole.next].previous = front_id;
    } else {
        own_blocks(back.start, back.length, back_id);
        std::copy_n(counts(front_id), run_counts, counts(back_id));
    }
    hash_lo[back.start] &= ~kContinues;
    uint32_t* count = counts(front_id);
    for (const GroupArrays& group : groups) {
        const uint8_t present = group.present[back.start];
        for (int t = 0; t < kTierCount; ++t) *count++ = present >> t & 1;
    }
    add_edge(back.start);
}

void PrefixIndex::State::try_join(RunId id) {
    const RunId child = runs[id].first_child;
    if (child == kNoRun || runs[child].next != kNoRun) return;
    if (runs[child].start != runs[id].end() || runs[child].tenant != runs[id].tenant) return;
    remove_edge(runs[child].start);
    hash_lo[runs[child].start] |= kContinues;
    Run whole = runs[id];
    whole.length += runs[child].length;
    whole.first_child = runs[child].first_child;
    const bool front_moves = runs[id].length < runs[child].length;
    const RunId kept = front_moves ? child : id;
    const RunId gone = front_moves ? id : child;
    if (front_moves) {
        if (whole.previous == kNoRun) {
            child_list(whole.parent) = kept;
        } else {
            runs[whole.previous].next = kept;
        }
        if (whole.next != kNoRun) runs[whole.next].previous = kept;
    } else {
        std::copy_n(counts(child), run_counts, counts(id));
    }
    own_blocks(runs[gone].start, runs[gone].length, kept);
    runs[kept] = whole;
    free_run(gone);
}

void PrefixIndex::State::fill(uint32_t start, std::span<const PrefixHash> chain, bool pin_new) {
    for (size_t i = 0; i < chain.size(); ++i) {
        const Hash128& hash = chain[i].value;
        hash_hi[start + i] = hash.hi;
        hash_lo[start + i] = hash.lo | kContinues;
        pin_word[start + i] = static_cast<uint32_t>(hash.lo << 31) | (pin_new ? 1u : 0u);
    }
    for (GroupArrays& group : groups) std::fill_n(group.present.data() + start, chain.size(), 0);
    if (pin_new) pinned_blocks += chain.size();
    blocks += chain.size();
}

uint32_t PrefixIndex::State::extend(RunId id, std::span<const PrefixHash> chain, bool pin_new) {
    const uint32_t start = runs[id].end();
    const uint32_t taken = pool->take_at(start, static_cast<uint32_t>(chain.size()));
    if (taken == 0) return 0;
    own_blocks(start, taken, id);
    fill(start, chain.first(taken), pin_new);
    runs[id].length += taken;
    tenant_blocks[runs[id].tenant] += taken;
    return taken;
}

uint32_t PrefixIndex::State::add_run(BlockIndex parent, std::span<const PrefixHash> chain,
                                     uint16_t tenant, bool pin_new) {
    Run run;
    if (parent != kNoBlock) {
        const Run& above = runs[run_of[parent]];
        run.depth = above.depth + above.length;
    }
    const BlockRun got = pool->take(static_cast<uint32_t>(chain.size()));
    if (got.length == 0) return kNoBlock;
    run.start = got.start;
    run.length = got.length;
    run.parent = parent;
    run.tenant = tenant;
    const RunId id = new_run(run);
    own_blocks(run.start, run.length, id);
    fill(run.start, chain.first(run.length), pin_new);
    hash_lo[run.start] &= ~kContinues;
    link_child(id);
    add_edge(run.start);
    tenant_blocks[tenant] += run.length;
    return run.start;
}

void PrefixIndex::State::count_child(BlockIndex block, uint32_t group, Tier tier, int change) {
    const Run& run = runs[run_of[block]];
    // Inside a run the parent's only child is this block, and its presence byte is the count.
    if (block != run.start || run.parent == kNoBlock) return;
    counts(run_of[run.parent])[group * kTierCount + static_cast<int>(tier)] +=
        static_cast<uint32_t>(change);
}

void PrefixIndex::State::forget_unused(BlockIndex block) {
    while (block != kNoBlock && pins(block) == 0 && present_anywhere(block) == 0) {
        const Run& run = runs[run_of[block]];
        if (block != run.last() || run.first_child != kNoRun) return;
        const BlockIndex parent = parent_of(block);
        remove_leaf(block);
        block = parent;
    }
}

void PrefixIndex::State::remove_leaf(BlockIndex block) {
    const RunId id = run_of[block];
    Run& run = runs[id];
    --tenant_blocks[run.tenant];
    --blocks;
    if (run.length > 1) {
        --run.length;
        hash_lo[block] &= ~kContinues;
        pool->give(block);
        return;
    }
    const BlockIndex parent = run.parent;
    remove_edge(block);
    unlink_child(id);
    free_run(id);
    pool->give(block);
    if (parent != kNoBlock) try_join(run_of[parent]);
}

uint64_t PrefixIndex::State::memory_bytes() const {
    const size_t used = pool->peak();
    uint64_t bytes = sizeof(PrefixIndex) + sizeof(State);
    bytes += hash_hi.resident_bytes(used) + hash_lo.resident_bytes(used);
    bytes += run_of.resident_bytes(used) + pin_word.resident_bytes(used);
    for (const GroupArrays& group : groups) {
        bytes += group.present.resident_bytes(used);
        for (const auto& slots : group.slots) bytes += slots.resident_bytes(used);
    }
    bytes += groups.capacity() * sizeof(GroupArrays);
    bytes += runs.resident_bytes(runs_peak);
    bytes += child_counts.resident_bytes(runs_peak * run_counts);
    return bytes + edges.memory_bytes() + tenant_blocks.capacity() * sizeof(uint64_t);
}

}  // namespace quire
