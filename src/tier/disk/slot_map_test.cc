#include "tier/disk/slot_map.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tier/testing/test_slab.h"

namespace quire {
namespace {

using testing::test_key;

DiskPlace place_of(uint64_t i) {
    return {static_cast<uint32_t>(i % 7), static_cast<uint32_t>(i),
            static_cast<uint16_t>(2 + i % 5)};
}

struct Naive {
    BlockKey parent;
    DiskPlace place;
};

void expect_same(const SlotMap& map, const std::map<uint64_t, Naive>& naive, uint64_t keys) {
    EXPECT_EQ(map.live_count(), naive.size());
    for (uint64_t i = 1; i <= keys; i++) {
        Slot slot = map.find(test_key(i));
        auto it = naive.find(i);
        ASSERT_EQ(slot != kNoSlot, it != naive.end()) << i;
        if (slot == kNoSlot) continue;
        EXPECT_EQ(map.at(slot).key, test_key(i));
        EXPECT_EQ(map.at(slot).place(), it->second.place);
        EXPECT_EQ(map.parent_key(slot), it->second.parent);
    }
}

TEST(SlotMap, BehavesLikeAMapUnderRandomWork) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        SlotMap map;
        std::map<uint64_t, Naive> naive;
        const uint64_t keys = 50 + random() % 3000;
        for (int step = 0; step < 20000; step++) {
            uint64_t i = 1 + random() % keys;
            Slot slot = map.find(test_key(i));
            if (slot == kNoSlot) {
                uint64_t parent = random() % (keys + 1);
                BlockKey parent_key = parent == 0 || parent == i ? BlockKey{} : test_key(parent);
                map.insert(test_key(i), parent_key, place_of(i + step), 1);
                naive[i] = {parent_key, place_of(i + step)};
            } else if (random() % 4 == 0) {
                DiskPlace place = map.at(slot).place();
                place.segment++;
                map.relocate(slot, place);
                naive[i].place = place;
            } else {
                map.remove(slot);
                naive.erase(i);
            }
        }
        expect_same(map, naive, keys);
        for (uint64_t i = 1; i <= keys; i++) {
            if (Slot slot = map.find(test_key(i)); slot != kNoSlot) map.remove(slot);
        }
        EXPECT_EQ(map.live_count(), 0u);
        EXPECT_EQ(map.entry_count(), 0u) << "ghosts must not outlive their children";
    }
}

TEST(SlotMap, ChildrenHangUnderTheirParent) {
    SlotMap map;
    Slot child = map.insert(test_key(2), test_key(1), place_of(2), 1);
    EXPECT_EQ(map.find(test_key(1)), kNoSlot) << "a ghost is not held";
    EXPECT_EQ(map.parent_key(child), test_key(1));
    Slot parent = map.insert(test_key(1), {}, place_of(1), 1);
    EXPECT_EQ(map.at(child).parent, parent);
    EXPECT_EQ(map.at(parent).first_child, child);
    map.remove(parent);
    EXPECT_EQ(map.parent_key(child), test_key(1)) << "the name stays while a child needs it";
    map.remove(child);
    EXPECT_EQ(map.entry_count(), 0u);
}

TEST(SlotMap, ItsOwnParentIsARoot) {
    SlotMap map;
    Slot slot = map.insert(test_key(1), test_key(1), place_of(1), 1);
    EXPECT_EQ(map.at(slot).parent, kNoSlot);
    map.remove(slot);
    EXPECT_EQ(map.entry_count(), 0u);
}

TEST(SlotMap, TakesAtMostSixtyFourBytesASlab) {
    SlotMap map;
    uint64_t next = 1;
    for (size_t count : {100'000u, 400'000u, 700'000u}) {
        while (map.live_count() < count) {
            map.insert(test_key(next), next % 100 == 1 ? BlockKey{} : test_key(next - 1),
                       place_of(next), 1);
            next++;
        }
        // Plus the 4 bytes that the catalog keeps in the segment's list.
        double each = static_cast<double>(map.memory_bytes()) / static_cast<double>(count) + 4;
        EXPECT_LE(each, 64.0) << count;
    }
}

TEST(SlotMap, CountsUses) {
    SlotMap map;
    Slot slot = map.insert(test_key(1), {}, place_of(1), 9);
    for (int i = 0; i < 300; i++) map.touch(slot, 5);
    EXPECT_EQ(map.at(slot).hits, 255);
    EXPECT_EQ(map.at(slot).tick, 5);
    EXPECT_EQ(map.at(slot).value, 9);
}

}  // namespace
}  // namespace quire
