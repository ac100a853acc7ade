// What is particular to the host pool; the verbs' contract is in tier/conformance_test.cc.
#include "tier/host/host_store.h"

#include <condition_variable>
#include <cstring>
#include <mutex>

#include <gtest/gtest.h>

#include "base/arena.h"
#include "base/check.h"
#include "tier/arena/slot_arena.h"
#include "tier/host/copy_slab.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/test_slab.h"

namespace quire {
namespace {

KvLayout small_layout() {
    KvLayout layout;
    layout.groups.push_back({KvKind::full, 0, {0, 1, 2}, 2, 32});
    return layout;
}

// A sealed slab named `n`, child of `parent` (0: none).
std::span<std::byte> layout_slab(Arena& arena, const KvLayout& layout, uint64_t n,
                                 uint64_t parent) {
    const std::span<std::byte> slab = arena.bytes().first(layout.slab_bytes(0));
    std::memset(slab.data(), static_cast<int>(n), slab.size());
    SlabHeader header;
    header.payload_bytes = static_cast<uint32_t>(layout.payload_bytes(0));
    header.key = {{n, n}};
    if (parent) header.parent_key = {{parent, parent}};
    header.layer_count = 3;
    header.layer_bytes = static_cast<uint32_t>(layout.layer_bytes(0));
    header.token_count = layout.block_tokens;
    std::memcpy(slab.data(), &header, sizeof header);
    const size_t end = kSlabHeaderBytes + header.payload_bytes;
    std::memset(slab.data() + end, 0, slab.size() - end);
    seal_slab(slab);
    return slab;
}

Arena some_memory(size_t bytes) {
    return std::move(Arena::create({.bytes = bytes})).value();
}

// Runs one put or get of one block and waits for its result.
class OneByOne {
 public:
    explicit OneByOne(TierStore& store) : store_(store) {}
    Status put(BlockKey key, std::span<const std::byte> slab) {
        return wait(store_.put({{key, slab, 1}}, done()));
    }
    Status get(BlockKey key, std::span<std::byte> into) {
        return wait(store_.get({{key, into}}, done(), {}));
    }

 private:
    TierDone done() {
        ready_ = false;
        return [this](std::span<const Status> results) {
            std::lock_guard lock(mutex_);
            result_ = results[0];
            ready_ = true;
            changed_.notify_one();
        };
    }
    Status wait(Status accepted) {
        if (!accepted.ok()) return accepted;
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ready_; });
        return result_;
    }
    TierStore& store_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ready_ = false;
    Status result_;
};

TEST(HostStore, ShowsWhatItGivesUpBeforeTheMemoryIsReused) {
    const KvLayout layout = small_layout();
    const size_t bytes = layout.slab_bytes(0);
    auto store = open_host_store({.layout = layout, .capacity_bytes = 3 * bytes});
    ASSERT_TRUE(store.ok()) << store.error().message;
    std::vector<std::vector<std::byte>> given_up;
    (*store)->on_evicted(
        [&](std::span<const std::byte> slab) { given_up.emplace_back(slab.begin(), slab.end()); });
    OneByOne one(**store);
    Arena memory = some_memory(bytes);
    for (uint64_t n = 1; n <= 5; ++n)
        ASSERT_TRUE(one.put({{n, n}}, layout_slab(memory, layout, n, 0)).ok());
    ASSERT_EQ(given_up.size(), 2u);
    for (uint64_t n = 1; n <= 2; ++n) {
        const std::span<std::byte> want = layout_slab(memory, layout, n, 0);
        EXPECT_EQ(std::memcmp(given_up[n - 1].data(), want.data(), bytes), 0);
    }
    // What is erased goes without a word.
    const BlockKey key{{3, 3}};
    (*store)->erase({&key, 1});
    ASSERT_TRUE(one.put({{6, 6}}, layout_slab(memory, layout, 6, 0)).ok());
    EXPECT_EQ(given_up.size(), 2u);
    (*store)->on_evicted({});
    ASSERT_TRUE(one.put({{7, 7}}, layout_slab(memory, layout, 7, 0)).ok());
    EXPECT_EQ(given_up.size(), 2u);
}

TEST(HostStore, ParentsOutliveChildren) {
    const KvLayout layout = small_layout();
    auto store = open_host_store({.layout = layout, .capacity_bytes = 3 * layout.slab_bytes(0)});
    ASSERT_TRUE(store.ok());
    OneByOne one(**store);
    Arena memory = some_memory(layout.slab_bytes(0));
    for (uint64_t n = 1; n <= 3; ++n)
        ASSERT_TRUE(one.put({{n, n}}, layout_slab(memory, layout, n, n - 1)).ok());
    // The oldest is block 1, but 3 is the only one without children.
    ASSERT_TRUE(one.put({{9, 9}}, layout_slab(memory, layout, 9, 0)).ok());
    const BlockKey keys[] = {{{1, 1}}, {{2, 2}}, {{3, 3}}, {{9, 9}}};
    uint8_t present[4] = {};
    (*store)->contains(keys, present);
    EXPECT_EQ(std::vector<int>(present, present + 4), (std::vector<int>{1, 1, 0, 1}));
    EXPECT_EQ((*store)->stats().evicted_blocks, 1u);
}

TEST(HostStore, RefusesASlabThatIsNotItsKey) {
    const KvLayout layout = small_layout();
    auto store = open_host_store({.layout = layout, .capacity_bytes = 3 * layout.slab_bytes(0)});
    ASSERT_TRUE(store.ok());
    OneByOne one(**store);
    Arena memory = some_memory(layout.slab_bytes(0));
    EXPECT_EQ(one.put({{2, 2}}, layout_slab(memory, layout, 1, 0)).code(), Code::invalid);
}

TEST(HostStore, ABudgetBelowOneBlockIsAnErrorThatSaysHowMuch) {
    const KvLayout layout = small_layout();
    auto store = open_host_store({.layout = layout, .capacity_bytes = 100});
    ASSERT_FALSE(store.ok());
    EXPECT_NE(store.error().message.find(std::to_string(layout.slab_bytes(0))), std::string::npos);
}

// A pool of slabs of any size: what counts is bytes, not blocks.
class HostStoreOfAnySize : public ::testing::Test {
 protected:
    static constexpr size_t kCapacityBytes = 40 * kSlabAlign;
    HostStoreOfAnySize() {
        auto store = open_host_store(
            {.layout = small_layout(), .capacity_bytes = kCapacityBytes, .any_size = true});
        QUIRE_CHECK(store.ok(), "no host store");
        store_ = std::move(*store);
    }
    // One layer of so many units less the header's.
    static testing::AlignedBytes slab(uint64_t n, uint32_t units, uint64_t parent = 0) {
        return testing::make_slab(n, parent, (units - 1) * kSlabAlign, 1);
    }
    std::unique_ptr<TierStore> store_;
};

TEST_F(HostStoreOfAnySize, HoldsWhatItsBytesHold) {
    std::vector<testing::AlignedBytes> slabs;
    const uint32_t units[] = {2, 3, 5, 7, 11, 2, 4, 6};  // 40 in all
    for (uint64_t n = 0; n < 8; ++n) slabs.push_back(slab(n + 1, units[n]));
    for (const auto& one : slabs) ASSERT_TRUE(testing::put_one(*store_, one).ok());
    for (const auto& one : slabs) EXPECT_TRUE(testing::reads_back(*store_, one));
    EXPECT_EQ(store_->stats().used_bytes, kCapacityBytes);
    EXPECT_EQ(store_->stats().capacity_bytes, kCapacityBytes);
    // Every second one goes; one of all their bytes finds its place between the others.
    std::vector<BlockKey> gone;
    for (uint64_t n : {2, 4, 6, 8}) gone.push_back(testing::test_key(n));
    store_->erase(gone);
    EXPECT_EQ(store_->stats().used_bytes, 22 * kSlabAlign);
    const testing::AlignedBytes large = slab(9, 18);
    ASSERT_TRUE(testing::put_one(*store_, large).ok());
    EXPECT_EQ(store_->stats().evicted_blocks, 0u);
    EXPECT_TRUE(testing::reads_back(*store_, large));
    for (uint64_t n : {0, 2, 4, 6}) EXPECT_TRUE(testing::reads_back(*store_, slabs[n]));
}

TEST_F(HostStoreOfAnySize, GivesUpAsManyAsAreNeededAndShowsThemWhole) {
    std::vector<std::vector<std::byte>> given_up;
    store_->on_evicted(
        [&](std::span<const std::byte> s) { given_up.emplace_back(s.begin(), s.end()); });
    std::vector<testing::AlignedBytes> slabs;
    for (uint64_t n = 1; n <= 10; ++n) {
        slabs.push_back(slab(n, 4));
        ASSERT_TRUE(testing::put_one(*store_, slabs.back()).ok());
    }
    ASSERT_TRUE(testing::put_one(*store_, slab(11, 10)).ok());
    ASSERT_EQ(given_up.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(given_up[i].size(), slabs[i].size());
        EXPECT_EQ(std::memcmp(given_up[i].data(), slabs[i].span().data(), slabs[i].size()), 0);
        EXPECT_FALSE(testing::holds(*store_, testing::test_key(i + 1)));
    }
    EXPECT_EQ(store_->stats().used_bytes, 38 * kSlabAlign) << "what was too much is free again";
    ASSERT_TRUE(testing::put_one(*store_, slab(12, 2)).ok());
    EXPECT_EQ(given_up.size(), 3u);
    EXPECT_EQ(testing::put_one(*store_, slab(13, 41)).code(), Code::invalid);
}

TEST_F(HostStoreOfAnySize, ParentsOutliveChildrenOfAnySize) {
    for (uint64_t n = 1; n <= 4; ++n)
        ASSERT_TRUE(testing::put_one(*store_, slab(n, 10, n - 1)).ok());
    ASSERT_TRUE(testing::put_one(*store_, slab(9, 20)).ok());
    for (const uint64_t n : {1, 2, 3, 4})
        EXPECT_EQ(testing::holds(*store_, testing::test_key(n)), n <= 2) << n;
}

TEST_F(HostStoreOfAnySize, ABudgetBelowOneBlockOfEachGroupIsAnErrorThatSaysHowMuch) {
    const KvLayout layout = small_layout();
    const auto none = open_host_store(
        {.layout = layout, .capacity_bytes = layout.slab_bytes(0) - 1, .any_size = true});
    ASSERT_EQ(none.code(), Code::full);
    EXPECT_NE(none.error().message.find(std::to_string(layout.slab_bytes(0))), std::string::npos);
}

TEST(CopySlab, FindsEveryFlippedByteOfHeaderAndLayers) {
    const KvLayout layout = small_layout();
    Arena from = some_memory(layout.slab_bytes(0));
    Arena to = some_memory(layout.slab_bytes(0));
    const std::span<std::byte> slab = layout_slab(from, layout, 5, 0);
    const std::span<std::byte> into = to.bytes().first(slab.size());
    ASSERT_TRUE(copy_slab_verified(slab, into).ok());
    EXPECT_EQ(std::memcmp(slab.data(), into.data(), slab.size()), 0);
    const size_t end = kSlabHeaderBytes + layout.payload_bytes(0);
    for (size_t at = 0; at < end; at += 37) {
        slab[at] ^= std::byte{0x10};
        EXPECT_EQ(copy_slab_verified(slab, into).code(), Code::corrupt) << "byte " << at;
        slab[at] ^= std::byte{0x10};
    }
}

TEST(SlotArena, GivesEachSlotOnceAndInPlace) {
    const KvLayout layout = small_layout();
    auto arena = SlotArena::create(layout, 4 * layout.slab_bytes(0) + 100, 1);
    ASSERT_TRUE(arena.ok());
    EXPECT_EQ((*arena)->slots(0), 4u);
    std::vector<uint32_t> taken;
    for (int i = 0; i < 4; ++i) taken.push_back((*arena)->take(0));
    EXPECT_EQ((*arena)->take(0), kNoArenaSlot);
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(taken, (std::vector<uint32_t>{0, 1, 2, 3}));
    for (uint32_t slot : taken) {
        const auto bytes = (*arena)->data(0, slot);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % kSlabAlign, 0u);
        std::memset(bytes.data(), 1, bytes.size());
    }
    (*arena)->give(0, 2);
    EXPECT_EQ((*arena)->take(0), 2u);
}

// With codes: few exact slots, equal numbers of the others, nothing over the budget.
TEST(SlotArena, SetsAsideExactSlotsForSinksAndOpenBlocks) {
    const KvLayout split =
        split_for_codes(small_layout(), 32, {{0, {0, 1, 2}, {.codec = 3, .bytes = 288}}}, {});
    const uint64_t exact = split.slab_bytes(0), codes = split.slab_bytes(1);
    for (const uint64_t budget : {16 * exact + 40 * codes, 200 * exact, 3000 * codes}) {
        auto arena = SlotArena::create(split, budget, 8, false, {.least = 4, .most = 20});
        ASSERT_TRUE(arena.ok());
        const uint64_t open = std::clamp<uint64_t>(budget / 4 / exact, 4, 20);
        EXPECT_EQ((*arena)->slots(0), open + 2 * ((*arena)->slots(1) / 16 + 1));
        EXPECT_LE((*arena)->capacity_bytes(), budget);
        EXPECT_GT((*arena)->capacity_bytes() + codes + 2 * exact, budget);
        EXPECT_EQ((*arena)->slots_max(), std::max((*arena)->slots(0), (*arena)->slots(1)));
        EXPECT_EQ((*arena)->data(1, 0).data(),
                  (*arena)->data(0, 0).data() + (*arena)->slots(0) * exact);
    }
    auto none = SlotArena::create(split, 6 * exact + 7 * codes, 8, false, {.least = 4, .most = 20});
    ASSERT_EQ(none.code(), Code::full);
    EXPECT_NE(none.error().message.find(std::to_string(6 * exact + 8 * codes)), std::string::npos);
    EXPECT_EQ(SlotArena::create(split, 6 * exact + 8 * codes, 8, false, {4, 20}).value()->slots(1),
              8u);
}

}  // namespace
}  // namespace quire
