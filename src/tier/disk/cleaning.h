// Which slabs of a segment are worth moving before the segment is deleted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tier/disk/catalog.h"

namespace quire {

struct CleaningPlan {
    // Slabs to copy elsewhere, each after those of its parents that lie in the segment.
    std::vector<Slot> moves;
    // Slabs to forget, each after its children; some may lie in other segments (a parent is dropped
    // only with everything that builds on it).
    std::vector<Slot> drops;
};

// Chooses for segment `victim`: slabs that live children elsewhere need, and slabs read lately, are
// moved as long as `budget_units` last, the most valuable first; everything else is dropped,
// children first. REQUIRES: the catalog's mutex held (shared is enough).
CleaningPlan plan_cleaning(const Catalog& catalog, uint32_t victim, uint32_t budget_units);

// The segment to delete when nothing can be moved: dropping it, with everything that builds on its
// slabs, loses least for the space won. Looks at the newest segments (where the children are) and
// at the least valuable one. REQUIRES: the catalog's mutex held (shared is enough).
std::optional<uint32_t> victim_without_moves(const Catalog& catalog);

}  // namespace quire
