#include "tier/disk/cleaning.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace quire {
namespace {

constexpr size_t kNewestLookedAt = 16;
constexpr int kChildrenLookedAt = 64;  // bounds the work on a root with very many children

class Planner {
 public:
    Planner(const Catalog& catalog, uint32_t victim) : catalog_(catalog), victim_(victim) {}

    CleaningPlan plan(uint32_t budget_units) {
        collect_members();
        std::vector<Slot> order = wanted();
        choose(order, budget_units);
        drop_the_rest();
        return std::move(plan_);
    }

 private:
    bool inside(Slot slot) const {
        const SlotEntry& entry = catalog_.at(slot);
        return entry.live() && entry.segment == victim_;
    }

    void collect_members() {
        std::unordered_set<Slot> seen;
        for (Slot slot : catalog_.segments().at(victim_).slots) {
            if (inside(slot) && seen.insert(slot).second) members_.push_back(slot);
        }
    }

    // Why a slab should stay: its own use, or the best child elsewhere that needs it. 0: it need
    // not.
    double reason_to_stay(Slot slot) const {
        double want = catalog_.hot(slot) ? catalog_.slab_score(slot) : 0;
        Slot child = catalog_.at(slot).first_child;
        for (int i = 0; i < kChildrenLookedAt && child != kNoSlot; i++) {
            if (catalog_.at(child).live() && catalog_.at(child).segment != victim_) {
                want = std::max(want, catalog_.slab_score(child));
            }
            child = catalog_.at(child).next_sibling;
        }
        return want;
    }

    std::vector<Slot> wanted() const {
        std::vector<std::pair<double, Slot>> scored;
        for (Slot slot : members_) {
            double want = reason_to_stay(slot);
            if (want > 0) scored.emplace_back(want, slot);
        }
        std::stable_sort(scored.begin(), scored.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        std::vector<Slot> order;
        order.reserve(scored.size());
        for (const auto& [want, slot] : scored) order.push_back(slot);
        return order;
    }

    // Takes each wanted slab together with its parents in the segment, or not at all.
    void choose(const std::vector<Slot>& order, uint32_t budget_units) {
        std::vector<Slot> chain;
        for (Slot slot : order) {
            chain.clear();
            uint64_t units = 0;
            for (Slot s = slot; s != kNoSlot && inside(s) && !chosen_.contains(s);
                 s = catalog_.at(s).parent) {
                if (chain.size() > members_.size()) break;  // a cycle made by damaged parents
                chain.push_back(s);
                units += catalog_.at(s).units;
            }
            if (units > budget_units) continue;
            budget_units -= static_cast<uint32_t>(units);
            for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
                if (chosen_.insert(*it).second) plan_.moves.push_back(*it);
            }
        }
    }

    void drop_the_rest() {
        for (Slot slot : members_) {
            if (!chosen_.contains(slot)) drop_subtree(slot);
        }
        std::erase_if(plan_.moves, [&](Slot slot) { return dropped_.contains(slot); });
    }

    // Post-order, so that children leave first; an explicit stack, for chains are long.
    void drop_subtree(Slot root) {
        if (dropped_.contains(root)) return;
        std::vector<std::pair<Slot, bool>> stack{{root, false}};
        while (!stack.empty()) {
            auto [slot, children_done] = stack.back();
            stack.pop_back();
            if (children_done) {
                plan_.drops.push_back(slot);
                continue;
            }
            if (!catalog_.at(slot).live() || !dropped_.insert(slot).second) continue;
            stack.emplace_back(slot, true);
            for (Slot child = catalog_.at(slot).first_child; child != kNoSlot;
                 child = catalog_.at(child).next_sibling) {
                stack.emplace_back(child, false);
            }
        }
    }

    const Catalog& catalog_;
    uint32_t victim_;
    std::vector<Slot> members_;
    std::unordered_set<Slot> chosen_;
    std::unordered_set<Slot> dropped_;
    CleaningPlan plan_;
};

}  // namespace

CleaningPlan plan_cleaning(const Catalog& catalog, uint32_t victim, uint32_t budget_units) {
    return Planner(catalog, victim).plan(budget_units);
}

std::optional<uint32_t> victim_without_moves(const Catalog& catalog) {
    std::vector<uint32_t> candidates;
    const auto& segments = catalog.segments();
    for (auto it = segments.rbegin(); it != segments.rend(); ++it) {
        if (candidates.size() == kNewestLookedAt) break;
        if (it->second.sealed) candidates.push_back(it->first);
    }
    if (auto least = catalog.least_valuable()) candidates.push_back(*least);
    std::optional<uint32_t> best;
    double best_cost = 0;
    for (uint32_t id : candidates) {
        double lost = 0;
        for (Slot slot : plan_cleaning(catalog, id, 0).drops) {
            lost += catalog.at(slot).units * catalog.slab_score(slot);
        }
        double cost = lost / static_cast<double>(segments.at(id).file_bytes + 1);
        if (best && cost >= best_cost) continue;
        best = id;
        best_cost = cost;
    }
    return best;
}

}  // namespace quire
