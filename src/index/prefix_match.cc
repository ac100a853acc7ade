// How far a known prefix can be served, given what each group needs.
#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "index/prefix_state.h"

namespace quire {
namespace {

// Blocks before position n * block_tokens that a query there can see. It sees keys in (pos - W,
// pos]; pos itself is not cached, so W - 1 keys, and the block that holds the oldest counts as a
// whole.
uint32_t window_blocks(const GroupNeed& need, uint32_t block_tokens) {
    return (need.window_tokens - 1 + block_tokens - 1) / block_tokens;
}

// One group's view while the prefix grows block by block.
struct GroupScan {
    const uint8_t* present = nullptr;
    uint32_t need = ~0u;  // trailing blocks that must be there; full: all
    uint32_t kept_from = 0;
    uint32_t kept_end = ~0u;
    uint32_t after_gap = 0;  // first block behind the last one that is missing

    void see(uint32_t block, bool there) {
        if (!there && block >= kept_from && block < kept_end) after_gap = block + 1;
    }
    // Blocks [first, min(n, kept_end)) are needed: is none missing?
    bool serves(uint32_t n) const {
        const uint32_t first = std::max(n - std::min(n, need), kept_from);
        return after_gap <= first;
    }
};

}  // namespace

Match PrefixIndex::match(std::span<const BlockIndex> known, size_t chain_blocks,
                         TierSet tiers) const {
    const uint32_t best = servable(known, tiers, {});
    Match match;
    match.blocks = best;
    match.known_blocks = static_cast<uint32_t>(known.size());
    if (best == chain_blocks) {
        match.end = MatchEnd::whole_chain;
    } else if (best == known.size()) {
        match.end = MatchEnd::never_seen;
    } else {
        // The need of best + 1 blocks is within that of best plus block `best`: so that one is
        // missing.
        match.end = MatchEnd::not_resident;
        match.block = best;
        const State& s = *state_;
        for (uint32_t g = 0; g < s.group_count; ++g) {
            const GroupNeed& need = s.options.groups[g];
            const bool needs_none = (need.kind == KvKind::window && need.window_tokens <= 1) ||
                                    best < need.kept_from || best >= need.kept_end;
            if (!needs_none && (s.groups[g].present[known[best]] & tiers.bits()) == 0) {
                match.group = g;
                break;
            }
        }
    }
    return match;
}

uint32_t PrefixIndex::servable(std::span<const BlockIndex> known, TierSet tiers,
                               std::span<uint8_t> ends) const {
    QUIRE_CHECK(ends.empty() || ends.size() >= known.size(), "room for every known block");
    const State& s = *state_;
    std::array<GroupScan, kMaxGroups> scans;
    for (size_t g = 0; g < s.group_count; ++g) {
        const GroupNeed& need = s.options.groups[g];
        scans[g].present = s.groups[g].present.data();
        scans[g].kept_from = need.kept_from;
        scans[g].kept_end = need.kept_end;
        if (need.kind == KvKind::window) {
            scans[g].need = window_blocks(need, s.options.block_tokens);
        }
    }
    const std::span<GroupScan> active(scans.data(), s.group_count);
    uint32_t best = 0;
    for (uint32_t i = 0; i < known.size(); ++i) {
        bool served = true;
        for (GroupScan& scan : active) {
            scan.see(i, (scan.present[known[i]] & tiers.bits()) != 0);
            served &= scan.serves(i + 1);
        }
        if (served) best = i + 1;
        if (!ends.empty()) ends[i] = served ? 1 : 0;
    }
    return best;
}

}  // namespace quire
