// How much of a prompt can be taken from the cache: pure arithmetic over "who has block i of group
// g".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_layout.h"
#include "core/tier.h"

namespace quire {

// Where one block of one group can be had from. kAbsent: nowhere.
enum class Source : uint8_t { absent, g1, loading, g2, g3, g35, g4 };

constexpr Source source_of(Tier tier) {
    switch (tier) {
        case Tier::g1:
            return Source::g1;
        case Tier::g2:
            return Source::g2;
        case Tier::g3:
            return Source::g3;
        case Tier::g35:
            return Source::g35;
        case Tier::g4:
            return Source::g4;
    }
    return Source::absent;
}

// The tier a source is read from; `loading` counts as g1 (nothing more to read).
constexpr Tier tier_of(Source source) {
    switch (source) {
        case Source::g2:
            return Tier::g2;
        case Source::g3:
            return Tier::g3;
        case Source::g35:
            return Tier::g35;
        case Source::g4:
            return Tier::g4;
        default:
            return Tier::g1;
    }
}

// sources[group][block]
using SourceTable = std::vector<std::vector<Source>>;

// For each n in [1, limit], at index n - 1: whether every group has all the blocks that it needs
// for a query at n * B, and n ends no span in its middle. A shorter prefix may lack a window that a
// longer one does not need.
std::vector<bool> usable_ends(const KvLayout& layout, const SourceTable& sources, uint32_t limit);

// The first block, of any group, that keeps n + 1 blocks from being usable; n when none does.
// REQUIRES: layout.can_end(n + 1).
uint32_t first_missing(const KvLayout& layout, const SourceTable& sources, uint32_t n);

// The largest usable n, or 0.
uint32_t longest_usable(const std::vector<bool>& ends);

}  // namespace quire
