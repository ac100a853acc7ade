// What every row of eviction_table() must do, over random histories of a small tree of blocks.
#include "policy/evict.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr uint32_t kRoot = ~uint32_t{0};

// The caller's side: which ids are resident, their parents, who is pinned. Checks each answer.
class Caller {
 public:
    Caller(const EvictionRow& row, uint32_t capacity, uint64_t seed)
        : policy_(row.make(capacity)), slots_(capacity), rng_(seed) {}

    // A request: extends the path to a random resident block by a few new ones, then touches the
    // path.
    void request() {
        std::vector<uint32_t> path;
        if (resident_ > 0 && rng_() % 3 != 0) {
            for (uint32_t id = any(); id != kRoot; id = slots_[id].parent)
                path.insert(path.begin(), id);
        }
        for (const uint32_t id : path) slots_[id].pinned = true;
        for (uint64_t more = rng_() % 4; more > 0; --more) {
            if (resident_ == slots_.size()) evict(1 + rng_() % 3);
            const uint32_t id = free_slot();
            if (id == kRoot) break;
            insert(id, path.empty() ? kRoot : path.back());
            path.push_back(id);
        }
        for (size_t i = path.size(); i > 0; --i) {
            policy_->touch(path[i - 1]);
            slots_[path[i - 1]].pinned = false;
        }
        ASSERT_EQ(policy_->size(), resident_);
    }

    void evict(size_t wanted) {
        const size_t before = resident_;
        std::vector<uint32_t> out(wanted, kRoot);
        gone_.clear();
        const size_t got = policy_->take_victims(out, asker());
        ASSERT_LE(got, wanted);
        ASSERT_EQ(got, gone_.size()) << "a yes must be a take, and nothing else may go";
        out.resize(got);
        ASSERT_EQ(std::set(out.begin(), out.end()), gone_);
        ASSERT_EQ(policy_->size(), before - got);
        if (got < wanted) {
            ASSERT_FALSE(can_evict()) << "gave up although something could go";
        }
    }

    void erase_leaf() {
        for (uint32_t tries = 0; tries < 8 && resident_ > 0; ++tries) {
            const uint32_t id = any();
            if (slots_[id].children > 0) continue;
            leave(id);
            policy_->erase(id);
            return;
        }
    }

    // Everything goes, children first, without being asked twice.
    void drain() {
        while (resident_ > 0) {
            const size_t before = resident_;
            evict(before);
            ASSERT_LT(resident_, before);
        }
    }

 private:
    struct Slot {
        bool resident = false;
        bool pinned = false;
        uint32_t parent = kRoot;
        uint32_t children = 0;
    };

    uint32_t any() {
        uint32_t id = static_cast<uint32_t>(rng_() % slots_.size());
        while (!slots_[id].resident) id = (id + 1) % static_cast<uint32_t>(slots_.size());
        return id;
    }
    uint32_t free_slot() const {
        for (uint32_t id = 0; id < slots_.size(); ++id) {
            if (!slots_[id].resident) return id;
        }
        return kRoot;
    }
    bool may_go(uint32_t id) const {
        return slots_[id].resident && !slots_[id].pinned && slots_[id].children == 0;
    }
    bool can_evict() const {
        for (uint32_t id = 0; id < slots_.size(); ++id) {
            if (may_go(id)) return true;
        }
        return false;
    }
    void insert(uint32_t id, uint32_t parent) {
        slots_[id] = {true, true, parent, 0};
        if (parent != kRoot) ++slots_[parent].children;
        ++resident_;
        // Hashes from a small set, so that ghosts are met again.
        policy_->insert(id, {{rng_() % 50, rng_() % 50}, 0, false, 0});
    }
    void leave(uint32_t id) {
        slots_[id].resident = false;
        if (slots_[id].parent != kRoot) --slots_[slots_[id].parent].children;
        --resident_;
    }
    Evictable asker() {
        return {[](void* self, uint32_t id) {
                    auto* caller = static_cast<Caller*>(self);
                    EXPECT_LT(id, caller->slots_.size());
                    EXPECT_TRUE(caller->slots_[id].resident) << "asked about an absent block";
                    if (!caller->may_go(id)) return false;
                    caller->leave(id);
                    caller->gone_.insert(id);
                    return true;
                },
                this};
    }

    std::unique_ptr<EvictionPolicy> policy_;
    std::vector<Slot> slots_;
    std::set<uint32_t> gone_;
    size_t resident_ = 0;
    std::mt19937_64 rng_;
};

class EvictionRows : public testing::TestWithParam<EvictionRow> {};

TEST_P(EvictionRows, KeepTheContractOverRandomHistories) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const uint32_t capacity = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 7 : 40;
        Caller caller(GetParam(), capacity, seed);
        for (int i = 0; i < 400; ++i) {
            caller.request();
            if (i % 7 == 0) caller.evict(1 + seed % 4);
            if (i % 11 == 0) caller.erase_leaf();
            if (HasFatalFailure()) return;
        }
        caller.drain();
        if (HasFatalFailure()) return;
    }
}

TEST_P(EvictionRows, TakeNothingWhileEverythingIsHeld) {
    const auto policy = GetParam().make(8);
    for (uint32_t id = 0; id < 8; ++id) policy->insert(id, {{id, id}, id, false, 0});
    uint32_t out[8];
    const Evictable never{[](void*, uint32_t) { return false; }, nullptr};
    EXPECT_EQ(policy->take_victims(out, never), 0u);
    EXPECT_EQ(policy->size(), 8u);
    const Evictable always{[](void*, uint32_t) { return true; }, nullptr};
    EXPECT_EQ(policy->take_victims(std::span(out, 0), always), 0u);
    EXPECT_EQ(policy->take_victims(out, always), 8u);
    EXPECT_EQ(policy->take_victims(out, always), 0u);
}

// Blocks that everybody uses must outlive a scan of blocks used once, whatever the policy.
TEST_P(EvictionRows, KeepWhatIsUsedAgainOverAScan) {
    constexpr uint32_t kCapacity = 100;
    const auto policy = GetParam().make(kCapacity);
    const Evictable always{[](void*, uint32_t) { return true; }, nullptr};
    std::vector<uint32_t> free;
    for (uint32_t id = kCapacity; id > 10; --id) free.push_back(id - 1);
    for (uint32_t id = 0; id < 10; ++id) {
        policy->insert(id, {{id, id}, 0, false, 0});
        policy->touch(id);
    }
    for (uint64_t scan = 0; scan < 2000; ++scan) {
        if (free.empty()) {
            uint32_t victim = 0;
            ASSERT_EQ(policy->take_victims(std::span(&victim, 1), always), 1u);
            ASSERT_GE(victim, 10u) << "gave up a hot block at step " << scan;
            free.push_back(victim);
        }
        policy->insert(free.back(), {{scan + 1000, scan * 77}, 0, false, 0});
        policy->touch(free.back());
        free.pop_back();
        if (scan % 5 == 0) {
            for (uint32_t id = 0; id < 10; ++id) policy->touch(id);
        }
    }
}

TEST_P(EvictionRows, AreDeterministic) {
    std::vector<uint32_t> order[2];
    for (auto& victims : order) {
        const auto policy = GetParam().make(64);
        std::mt19937_64 rng(3);
        for (uint32_t id = 0; id < 64; ++id) policy->insert(id, {{rng(), rng()}, 0, false, 0});
        for (int i = 0; i < 500; ++i) policy->touch(static_cast<uint32_t>(rng() % 64));
        victims.resize(64);
        const Evictable always{[](void*, uint32_t) { return true; }, nullptr};
        ASSERT_EQ(policy->take_victims(victims, always), 64u);
    }
    EXPECT_EQ(order[0], order[1]);
}

INSTANTIATE_TEST_SUITE_P(Table, EvictionRows,
                         testing::ValuesIn(eviction_table().begin(), eviction_table().end()),
                         [](const auto& row) {
                             std::string name(row.param.name);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(EvictionTable, FindsRowsByName) {
    ASSERT_NE(find_eviction("lru"), nullptr);
    EXPECT_EQ(find_eviction("lru")->name, "lru");
    EXPECT_EQ(find_eviction("LRU"), nullptr);
    EXPECT_EQ(find_eviction(""), nullptr);
    std::set<std::string_view> names;
    for (const EvictionRow& row : eviction_table()) {
        EXPECT_TRUE(names.insert(row.name).second);
        EXPECT_FALSE(row.about.empty());
    }
}

}  // namespace
}  // namespace quire
