// PrefixIndex::check(): every invariant that the other files rely on.
#include <string>
#include <vector>

#include "index/prefix_state.h"

namespace quire {
namespace {

Error broken(const std::string& what, uint32_t where) {
    return make_error(Code::bug, "index: " + what + " at " + std::to_string(where), where);
}

using Counts = std::vector<uint32_t>;

// Resident children by group and tier, counted anew.
template <typename State>
Counts children_counts(const State& s, RunId first_child) {
    Counts counts(s.run_counts);
    for (RunId c = first_child; c != kNoRun; c = s.runs[c].next) {
        for (size_t g = 0; g < s.group_count; ++g) {
            const uint8_t present = s.groups[g].present[s.runs[c].start];
            for (int t = 0; t < kTierCount; ++t) counts[g * kTierCount + t] += present >> t & 1;
        }
    }
    return counts;
}

}  // namespace

Status PrefixIndex::check() const {
    const State& s = *state_;
    QUIRE_TRY(s.pool->check());
    std::vector<RunId> seen(s.pool->top(), kNoRun);
    std::vector<uint64_t> tenants(s.tenant_blocks.size());
    uint64_t blocks = 0, pinned = 0, runs = 0;
    std::vector<RunId> todo;
    const auto push_children = [&](RunId first, BlockIndex parent) -> Status {
        RunId previous = kNoRun;
        for (RunId r = first; r != kNoRun; r = s.runs[r].next) {
            if (s.runs[r].parent != parent || s.runs[r].previous != previous) {
                return broken("child list is not linked both ways", r);
            }
            if (++runs > s.live_runs) return broken("more runs linked than live", r);
            previous = r;
            todo.push_back(r);
        }
        return {};
    };
    QUIRE_TRY(push_children(s.first_root, kNoBlock));
    while (!todo.empty()) {
        const RunId id = todo.back();
        todo.pop_back();
        const Run& run = s.runs[id];
        if (run.length == 0 || run.end() > s.pool->top()) return broken("run out of range", id);
        if (s.find_edge(run.parent, s.hash_of(run.start)) != run.start) {
            return broken("no edge leads to the run", id);
        }
        if (run.parent != kNoBlock) {
            const Run& above = s.runs[s.run_of[run.parent]];
            if (run.parent != above.last()) return broken("run hangs off an inner block", id);
            if (run.depth != above.depth + above.length) return broken("wrong depth", id);
        } else if (run.depth != 0) {
            return broken("wrong depth of a root", id);
        }
        for (uint32_t b = run.start; b < run.end(); ++b) {
            if (s.run_of[b] != id || seen[b] != kNoRun) return broken("block owned twice", b);
            seen[b] = id;
            const bool continues = (s.hash_lo[b] & State::kContinues) != 0;
            if (continues != (b != run.start)) return broken("wrong continuation mark", b);
            pinned += s.pins(b) > 0 ? 1 : 0;
        }
        blocks += run.length;
        if (run.tenant >= tenants.size()) return broken("unknown tenant", id);
        tenants[run.tenant] += run.length;

        const Counts counts = children_counts(s, run.first_child);
        if (!std::equal(counts.begin(), counts.end(), s.counts(id))) {
            return broken("resident children miscounted", run.last());
        }
        QUIRE_TRY(push_children(run.first_child, run.last()));
    }
    for (uint32_t b = 0; b < s.pool->top(); ++b) {
        if (seen[b] != kNoRun) continue;
        if (s.run_of[b] != BlockPool::kFree) return broken("block in no reachable run", b);
        if ((s.hash_lo[b] & State::kContinues) != 0) return broken("free block continues a run", b);
    }
    if (runs != s.live_runs || s.edges.size() != runs)
        return broken("runs miscounted", s.live_runs);
    uint64_t free_runs = 0;
    for (RunId r = s.first_free_run; r != kNoRun && free_runs <= s.runs_peak; r = s.runs[r].next) {
        ++free_runs;
    }
    if (free_runs + runs != s.runs_peak) return broken("run ids leak", s.runs_peak);
    if (blocks != s.blocks || pinned != s.pinned_blocks) return broken("blocks miscounted", 0);
    if (blocks + s.pool->free_blocks() != s.options.max_blocks) return broken("blocks leak", 0);
    if (tenants != s.tenant_blocks) return broken("tenant blocks miscounted", 0);
    return {};
}

}  // namespace quire
