#include "tier/disk/cleaning.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tier/testing/test_slab.h"

namespace quire {
namespace {

using testing::test_key;

constexpr uint64_t kSegmentBytes = 1 << 20;

class Store {
 public:
    explicit Store(uint32_t segments) {
        for (uint32_t id = 1; id <= segments; id++) catalog_.add_segment(id, kSegmentBytes, true);
    }
    Slot put(uint64_t number, uint64_t parent, uint32_t segment, uint16_t units = 4,
             uint32_t value = 1) {
        uint32_t& end = ends_[segment];
        DiskPlace place{segment, end + 1, units};
        end += units;
        return catalog_.publish(test_key(number), parent ? test_key(parent) : BlockKey{}, place,
                                value);
    }
    void read(uint64_t number) {
        Slot slot = catalog_.find(test_key(number));
        catalog_.touch(slot);
    }
    std::set<uint64_t> numbers(const std::vector<Slot>& slots, uint64_t most) const {
        std::set<uint64_t> out;
        for (uint64_t i = 1; i <= most; i++) {
            Slot slot = catalog_.find(test_key(i));
            if (std::find(slots.begin(), slots.end(), slot) != slots.end()) out.insert(i);
        }
        return out;
    }
    Catalog& catalog() { return catalog_; }

 private:
    Catalog catalog_;
    std::map<uint32_t, uint32_t> ends_;
};

TEST(Cleaning, ColdSegmentIsDroppedWhole) {
    Store store(1);
    for (uint64_t i = 1; i <= 5; i++) store.put(i, i - 1, 1);
    CleaningPlan plan = plan_cleaning(store.catalog(), 1, 1000);
    EXPECT_TRUE(plan.moves.empty());
    EXPECT_EQ(store.numbers(plan.drops, 5), (std::set<uint64_t>{1, 2, 3, 4, 5}));
}

TEST(Cleaning, ParentsOfChildrenElsewhereMove) {
    Store store(2);
    for (uint64_t i = 1; i <= 5; i++) store.put(i, i - 1, 1);
    store.put(10, 3, 2);  // needs 1, 2, 3
    CleaningPlan plan = plan_cleaning(store.catalog(), 1, 1000);
    EXPECT_EQ(store.numbers(plan.moves, 10), (std::set<uint64_t>{1, 2, 3}));
    EXPECT_EQ(store.numbers(plan.drops, 10), (std::set<uint64_t>{4, 5}));
}

TEST(Cleaning, WithoutBudgetTheChildrenLeaveFirst) {
    Store store(2);
    for (uint64_t i = 1; i <= 3; i++) store.put(i, i - 1, 1);
    Slot child = store.put(10, 3, 2);
    Slot grandchild = store.put(11, 10, 2);
    CleaningPlan plan = plan_cleaning(store.catalog(), 1, 0);
    EXPECT_TRUE(plan.moves.empty());
    ASSERT_EQ(plan.drops.size(), 5u);
    EXPECT_EQ(plan.drops[0], grandchild);
    EXPECT_EQ(plan.drops[1], child);
}

TEST(Cleaning, WhatWasReadLatelyMovesWithItsParents) {
    Store store(1);
    for (uint64_t i = 1; i <= 6; i++) store.put(i, i - 1, 1);
    store.read(4);
    CleaningPlan plan = plan_cleaning(store.catalog(), 1, 1000);
    EXPECT_EQ(store.numbers(plan.moves, 6), (std::set<uint64_t>{1, 2, 3, 4}));
}

TEST(Cleaning, TheMoreValuableGetsTheBudget) {
    Store store(1);
    store.put(1, 0, 1, 10, 1);
    store.put(2, 0, 1, 10, 50);
    store.read(1);
    store.read(2);
    CleaningPlan plan = plan_cleaning(store.catalog(), 1, 10);
    EXPECT_EQ(store.numbers(plan.moves, 2), (std::set<uint64_t>{2}));
}

TEST(Cleaning, DeadAndColdSegmentsGoFirst) {
    Store store(3);  // of 256 units each
    for (uint64_t i = 1; i <= 20; i++) store.put(i, 0, 1, 12);
    for (uint64_t i = 21; i <= 40; i++) store.put(i, 0, 2, 12);
    for (uint64_t i = 41; i <= 60; i++) store.put(i, 0, 3, 12);
    for (uint64_t i = 21; i <= 40; i++) store.read(i);
    for (uint64_t i = 1; i <= 18; i++) store.catalog().erase(store.catalog().find(test_key(i)));
    EXPECT_EQ(store.catalog().least_valuable(), 1u) << "nearly all of it is dead";
    store.catalog().drop_segment(1);
    EXPECT_EQ(store.catalog().least_valuable(), 3u) << "nobody read it";
}

TEST(Cleaning, OneHotSlabDoesNotProtectItsColdNeighbours) {
    Store store(2);
    for (uint64_t i = 1; i <= 20; i++) store.put(i, 0, 1, 12);
    store.catalog().advance(8 << 20, 16 << 20);  // eight rounds later
    for (uint64_t i = 21; i <= 40; i++) store.put(i, 0, 2, 12);
    for (int i = 0; i < 50; i++) store.read(1);
    EXPECT_EQ(store.catalog().least_valuable(), 1u);
    EXPECT_EQ(store.numbers(plan_cleaning(store.catalog(), 1, 64).moves, 40),
              (std::set<uint64_t>{1}));
}

TEST(Cleaning, WhenNothingCanMoveTheEndOfAChainGoes) {
    Store store(4);
    for (uint64_t i = 1; i <= 40; i++) {
        store.put(i, i - 1, static_cast<uint32_t>(1 + (i - 1) / 10), 12);
    }
    EXPECT_EQ(victim_without_moves(store.catalog()), 4u) << "all others hold its parents";
    store.catalog().drop_segment(4);
    EXPECT_EQ(victim_without_moves(store.catalog()), 3u);
}

// Whatever happens, a plan covers the segment exactly, fits its budget, moves parents before
// children and never leaves a live slab whose dropped parent was live.
TEST(Cleaning, PlansKeepTheirPromisesOnRandomForests) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        Store store(4);
        const uint64_t count = 5 + random() % 60;
        uint32_t inside_units = 0;
        for (uint64_t i = 1; i <= count; i++) {
            auto units = static_cast<uint16_t>(2 + random() % 6);
            auto segment = static_cast<uint32_t>(1 + random() % 4);
            store.put(i, random() % i, segment, units, 1 + random() % 5);
            if (segment == 1) inside_units += units;
            if (random() % 3 == 0) store.read(1 + random() % i);
        }
        const auto budget = static_cast<uint32_t>(random() % (inside_units + 2));
        Catalog& catalog = store.catalog();
        CleaningPlan plan = plan_cleaning(catalog, 1, budget);
        std::set<Slot> moved(plan.moves.begin(), plan.moves.end());
        std::set<Slot> dropped(plan.drops.begin(), plan.drops.end());
        EXPECT_EQ(moved.size(), plan.moves.size());
        EXPECT_EQ(dropped.size(), plan.drops.size());
        uint32_t moved_units = 0;
        std::set<Slot> done;
        for (Slot slot : plan.moves) {
            const SlotEntry& entry = catalog.at(slot);
            EXPECT_EQ(entry.segment, 1u);
            EXPECT_FALSE(dropped.contains(slot));
            moved_units += entry.units;
            if (entry.parent != kNoSlot && catalog.at(entry.parent).segment == 1) {
                EXPECT_TRUE(done.contains(entry.parent));
            }
            done.insert(slot);
        }
        EXPECT_LE(moved_units, budget);
        catalog.map().for_each_live([&](Slot slot) {
            const SlotEntry& entry = catalog.at(slot);
            if (entry.segment == 1) {
                EXPECT_TRUE(moved.contains(slot) != dropped.contains(slot));
            }
            if (dropped.contains(slot) || entry.parent == kNoSlot) return;
            EXPECT_FALSE(dropped.contains(entry.parent)) << "a child outlives its parent";
        });
    }
}

}  // namespace
}  // namespace quire
