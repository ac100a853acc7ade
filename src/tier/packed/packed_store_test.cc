// A tier that packs: what only it promises. What every tier does is in conformance_test.cc.
#include "tier/packed/packed_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <gtest/gtest.h>

#include "base/fault_io.h"
#include "base/io.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/packed/behind_lossy.h"
#include "tier/packed/bx_packing.h"
#include "tier/packed/pack_worth.h"
#include "tier/packed/packed_slab.h"
#include "tier/packed/zstd_packing.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/temp_dir.h"

namespace quire {
namespace {

using namespace quire::testing;

// Keeps every n-th byte of a payload and fills the rest with it: smaller, and lossy on purpose.
class EveryNth : public SlabPacking {
 public:
    explicit EveryNth(uint32_t n, uint64_t transform = 7) : n_(n), transform_(transform) {}
    PackingTag tag() const override { return {PackingId::ec, 1, {transform_, n_}}; }
    std::string name() const override { return "every " + std::to_string(n_); }
    bool lossless() const override { return false; }
    bool pack(std::span<const std::byte> slab, std::vector<std::byte>* out) const override {
        const size_t payload = slab_header(slab).payload_bytes;
        for (size_t i = 0; i < payload; i += n_) out->push_back(slab[kSlabHeaderBytes + i]);
        return true;
    }
    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        const size_t payload = slab_header(slab).payload_bytes;
        if (packed.size() != (payload + n_ - 1) / n_) return make_error(Code::corrupt, "too short");
        for (size_t i = 0; i < payload; ++i) slab[kSlabHeaderBytes + i] = packed[i / n_];
        return {};
    }

 private:
    uint32_t n_;
    uint64_t transform_;
};

// Says that it loses nothing, and loses the last byte.
class Forgetful final : public SlabPacking {
 public:
    PackingTag tag() const override { return {PackingId::bx, 1, {}}; }
    std::string name() const override { return "forgetful"; }
    bool lossless() const override { return true; }
    bool pack(std::span<const std::byte>, std::vector<std::byte>* out) const override {
        out->push_back(std::byte{1});
        return true;
    }
    Status unpack(std::span<const std::byte>, std::span<std::byte> slab) const override {
        std::ranges::fill(slab.subspan(kSlabHeaderBytes), std::byte{0});
        return {};
    }
};

// Slabs whose payload is 16 times each byte.
AlignedBytes smooth_slab(uint64_t number, uint64_t parent = 0) {
    AlignedBytes slab = make_slab(number, parent, 64 << 10);
    const size_t payload = slab_header(slab.span()).payload_bytes;
    for (size_t i = 0; i < payload; ++i)
        slab.span()[kSlabHeaderBytes + i] = static_cast<std::byte>(mix(number + i / 16) >> 8);
    seal_slab(slab.span());
    return slab;
}

class PackedStoreTest : public ::testing::Test {
 protected:
    PackedStoreTest() {
        auto io = make_io_engine({});
        QUIRE_CHECK(io.ok(), "no I/O engine");
        io_ = std::move(*io);
    }
    std::unique_ptr<TierStore> disk(IoEngine* io = nullptr) {
        inner_.reset();
        DiskOptions options;
        options.dir = dir_.path();
        options.capacity_bytes = 64 << 20;
        options.io = io ? io : io_.get();
        auto store = open_disk_store(options);
        QUIRE_CHECK(store.ok(), store.ok() ? "" : store.error().message.c_str());
        return std::move(*store);
    }
    std::unique_ptr<TierStore> packed(std::shared_ptr<const SlabPacking> packing,
                                      IoEngine* io = nullptr) {
        inner_ = disk(io);
        return make_packed_store(*inner_, {.packing = std::move(packing), .pack_share = 1.0});
    }

    TempDir dir_;
    std::unique_ptr<IoEngine> io_;
    std::unique_ptr<TierStore> inner_;
};

TEST_F(PackedStoreTest, BytesComeBackAndTakeLess) {
    for (const auto& packing : {std::shared_ptr<const SlabPacking>(std::make_shared<EveryNth>(16)),
                                make_zstd_packing()}) {
        auto store = packed(packing);
        std::vector<AlignedBytes> slabs;
        std::vector<TierPut> puts;
        for (uint64_t i = 1; i <= 40; ++i) slabs.push_back(smooth_slab(i, i - 1));
        for (const AlignedBytes& slab : slabs) puts.push_back(put_of(slab));
        for (const Status& status : put_wait(*store, puts)) ASSERT_TRUE(status.ok());
        for (const AlignedBytes& slab : slabs) EXPECT_TRUE(reads_back(*store, slab));
        const TierStats stats = store->stats();
        EXPECT_EQ(stats.packed_blocks, 40u) << packing->name();
        EXPECT_EQ(stats.unpacked_blocks, 40u);
        EXPECT_LT(stats.packed_to_bytes * 4, stats.packed_from_bytes);
        EXPECT_EQ(stats.packed_from_bytes, 40 * slabs[0].size());
        const auto entries = store->list();
        ASSERT_TRUE(entries.ok());
        for (const TierEntry& entry : *entries) EXPECT_LT(entry.bytes * 4, slabs[0].size());
        std::vector<BlockKey> keys;
        for (const TierPut& put : puts) keys.push_back(put.key);
        store->erase(keys);
    }
}

TEST_F(PackedStoreTest, WhatSavesTooLittleStaysAndIsTriedNowAndThen) {
    auto store = packed(make_zstd_packing());
    std::vector<AlignedBytes> slabs;
    // Noise, and at the end what packs well.
    constexpr uint64_t kNoise = PackWorth::kInARow + 2 * PackWorth::kNowAndThen;
    for (uint64_t i = 1; i <= kNoise; ++i) slabs.push_back(make_slab(i, i - 1, 16 << 10));
    for (uint64_t i = 1; i <= PackWorth::kNowAndThen + 3; ++i)
        slabs.push_back(smooth_slab(kNoise + i, kNoise + i - 1));
    for (const AlignedBytes& slab : slabs) {
        const TierPut put = put_of(slab);
        ASSERT_TRUE(put_wait(*store, {put})[0].ok());
    }
    for (const AlignedBytes& slab : slabs) EXPECT_TRUE(reads_back(*store, slab));
    const TierStats stats = store->stats();
    EXPECT_EQ(stats.pack_failures, PackWorth::kInARow + 2);
    // From the first that is tried on, all are packed.
    EXPECT_EQ(stats.packed_blocks, 4u);
    EXPECT_FALSE(is_worth_packing(64 << 10, 62 << 10));
    EXPECT_TRUE(is_worth_packing(64 << 10, 60 << 10));
}

TEST_F(PackedStoreTest, WhatIsPackedSurvivesTheProcess) {
    const AlignedBytes slab = smooth_slab(1);
    {
        auto store = packed(std::make_shared<EveryNth>(16));
        ASSERT_TRUE(put_one(*store, slab).ok());
        ASSERT_TRUE(store->flush(kTestTimeoutNs).ok());
    }
    auto store = packed(std::make_shared<EveryNth>(16));
    EXPECT_TRUE(reads_back(*store, slab));
    EXPECT_EQ(inspect_disk(dir_.path(), true).code(), Code::busy);
    store.reset();
    inner_.reset();
    const auto report = inspect_disk(dir_.path(), true);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->verified_blocks, 1u) << "a packed slab is sound to who cannot unpack it";
}

TEST_F(PackedStoreTest, AnotherPackingIsGivenUpAndReplaced) {
    const AlignedBytes slab = smooth_slab(1);
    ASSERT_TRUE(put_one(*packed(std::make_shared<EveryNth>(16)), slab).ok());
    for (const auto& other :
         {std::shared_ptr<const SlabPacking>(std::make_shared<EveryNth>(8)), make_zstd_packing(),
          std::shared_ptr<const SlabPacking>(std::make_shared<EveryNth>(8, 9))}) {
        auto store = packed(other);
        AlignedBytes into(slab.size());
        EXPECT_EQ(get_one(*store, test_key(1), into).code(), Code::unsupported) << other->name();
        EXPECT_FALSE(holds(*store, test_key(1)));
        EXPECT_TRUE(put_one(*store, slab).ok());
        EXPECT_TRUE(reads_back(*store, slab)) << other->name();
    }
}

TEST_F(PackedStoreTest, AStoreThatDoesNotPackGivesNoPackedBytes) {
    const AlignedBytes slab = smooth_slab(1);
    ASSERT_TRUE(put_one(*packed(make_zstd_packing()), slab).ok());
    auto store = disk();
    AlignedBytes into(slab.size());
    EXPECT_EQ(get_one(*store, test_key(1), into).code(), Code::invalid);
}

TEST_F(PackedStoreTest, PlainSlabsAreServedAsTheyAre) {
    const AlignedBytes slab = smooth_slab(1), noise = make_slab(2);
    ASSERT_TRUE(put_one(*disk(), slab).ok());
    auto store = packed(make_zstd_packing());
    EXPECT_TRUE(reads_back(*store, slab));
    EXPECT_TRUE(put_one(*store, noise).ok()) << "what does not shrink is stored plain";
    EXPECT_TRUE(reads_back(*store, noise));
    EXPECT_EQ(store->stats().unpacked_blocks, 0u);
    EXPECT_EQ(store->stats().pack_failures, 1u);
}

// What a lossy packing could not make smaller may stand on what it changed: nobody else gets it.
TEST_F(PackedStoreTest, WhatALossyPackingLeavesIsItsOwn) {
    const AlignedBytes slab = smooth_slab(1);
    const auto lossy = std::make_shared<EveryNth>(1);  // as large as before
    const auto put_again = [&] { ASSERT_TRUE(put_one(*packed(lossy), slab).ok()); };
    put_again();
    EXPECT_TRUE(reads_back(*packed(lossy), slab));
    AlignedBytes into(slab.size());
    for (const auto& other :
         {std::shared_ptr<const SlabPacking>(std::make_shared<EveryNth>(8)), make_zstd_packing()}) {
        auto store = packed(other);
        EXPECT_EQ(get_one(*store, test_key(1), into).code(), Code::unsupported) << other->name();
        EXPECT_FALSE(holds(*store, test_key(1)));
        store.reset();
        put_again();
    }
    // A store that does not pack hands out sound bytes; who checks what they are finds the mark.
    ASSERT_TRUE(get_one(*disk(), test_key(1), into).ok());
    SlabExpectation expected;
    const SlabHeader& header = slab_header(std::span<const std::byte>(into.span()));
    expected.key = header.key;
    expected.model = header.model;
    expected.layout_digest = header.layout_digest;
    EXPECT_EQ(match_slab(into.span(), expected).code(), Code::unsupported);
}

// A packed pool in memory above a packed disk, as an engine has them.
class TwoTiersPacked : public PackedStoreTest {
 protected:
    using Packing = std::shared_ptr<const SlabPacking>;
    // Slab n through a host pool packed so, as that gives it up, put below.
    Status hand_down(const Packing& above, TierStore& below, uint64_t n) {
        KvLayout layout;
        layout.groups = {KvGroup{KvKind::full, 0, {0, 1}, 2, 64}};
        auto pool =
            open_host_store({.layout = layout, .capacity_bytes = 256 << 10, .any_size = true});
        QUIRE_CHECK(pool.ok(), "no host store");
        auto host = make_packed_store(**pool, {.packing = above, .pack_share = 1.0});
        const AlignedBytes slab = smooth_slab(n);
        QUIRE_TRY(put_one(*host, slab));
        EXPECT_TRUE(reads_back(*host, slab));
        const BlockKey key = test_key(n);
        AlignedBytes lay(list_bytes(*host));
        const Status got =
            get_wait(*host, {{.key = key, .into = lay.span(), .as_stored = true}})[0];
        QUIRE_TRY(got);
        EXPECT_TRUE(packed_by(*above, lay.span()));
        // What is given up for room is the same bytes.
        AlignedBytes seen;
        host->on_evicted([&](std::span<const std::byte> gone) {
            if (slab_header(gone).key != key) return;
            seen = AlignedBytes(gone.size());
            std::ranges::copy(gone, seen.span().begin());
        });
        for (uint64_t other = 1000; holds(*host, key); ++other)
            QUIRE_TRY(put_one(*host, make_slab(other)));
        host->on_evicted({});
        EXPECT_TRUE(same_bytes(seen, lay));
        return put_one(below, seen);
    }
    static size_t list_bytes(const TierStore& store) { return store.list()->front().bytes; }
    std::unique_ptr<TierStore> below(const Packing& packing, const Packing& above) {
        inner_ = disk();
        return make_packed_store(
            *inner_, {.packing = pack_behind(packing, above), .above = above, .pack_share = 1.0});
    }
    const Packing lossy_ = std::make_shared<EveryNth>(16), coarse_ = std::make_shared<EveryNth>(8),
                  zstd_ = make_zstd_packing();
};

TEST_F(TwoTiersPacked, WhatIsPackedAlikeIsStoredAsItCame) {
    for (const Packing& packing : {lossy_, zstd_}) {
        auto store = below(packing, packing);
        ASSERT_TRUE(hand_down(packing, *store, 1).ok());
        EXPECT_EQ(store->stats().packed_blocks, 0u) << packing->name();
        EXPECT_LT(list_bytes(*store) * 4, smooth_slab(1).size());
        EXPECT_TRUE(reads_back(*store, smooth_slab(1)));
        store->erase(std::vector{test_key(1)});
    }
}

TEST_F(TwoTiersPacked, WhatIsPackedOtherwiseIsPackedAnew) {
    const std::pair<Packing, Packing> pairs[] = {
        {zstd_, lossy_}, {lossy_, zstd_}, {lossy_, coarse_}};
    for (const auto& [above, packing] : pairs) {
        auto store = below(packing, above);
        ASSERT_TRUE(hand_down(above, *store, 1).ok());
        EXPECT_EQ(store->stats().packed_blocks, 1u);
        EXPECT_TRUE(reads_back(*store, smooth_slab(1)));
        store->erase(std::vector{test_key(1)});
    }
}

TEST_F(TwoTiersPacked, AnUnpackedTierGetsItUnpackedUnlessItLostSomething) {
    auto plain = below(nullptr, zstd_);
    ASSERT_TRUE(hand_down(zstd_, *plain, 1).ok());
    EXPECT_TRUE(plain->stats().packing.empty());
    plain.reset();
    EXPECT_TRUE(reads_back(*disk(), smooth_slab(1)));
    // Nobody can make exact what is not: it stays as it came.
    auto marked = below(nullptr, lossy_);
    ASSERT_TRUE(hand_down(lossy_, *marked, 2).ok());
    EXPECT_TRUE(reads_back(*marked, smooth_slab(2)));
    marked.reset();
    AlignedBytes into(smooth_slab(2).size());
    EXPECT_EQ(get_one(*disk(), test_key(2), into).code(), Code::invalid);
}

// Whatever is stored behind a lossy tier may stand on what that one changed.
TEST_F(TwoTiersPacked, BehindALossyTierOnlyItsOwnReadWhatIsStored) {
    const AlignedBytes slab = smooth_slab(1);
    AlignedBytes into(slab.size());
    for (const Packing& packing : {Packing(), zstd_, coarse_}) {
        for (const Packing& other : {zstd_, coarse_, pack_behind(packing, coarse_)}) {
            ASSERT_TRUE(put_one(*below(packing, lossy_), slab).ok());
            EXPECT_TRUE(reads_back(*below(packing, lossy_), slab));
            auto store = packed(other);
            EXPECT_EQ(get_one(*store, test_key(1), into).code(), Code::unsupported);
            EXPECT_FALSE(holds(*store, test_key(1)));
            store.reset();
            if (!packing) continue;
            // The other way round nothing is in doubt.
            ASSERT_TRUE(put_one(*packed(packing), slab).ok());
            EXPECT_TRUE(reads_back(*below(packing, lossy_), slab));
            inner_->erase(std::vector{test_key(1)});
        }
    }
    EXPECT_EQ(pack_behind(zstd_, zstd_), zstd_);
    EXPECT_EQ(pack_behind(lossy_, zstd_), lossy_);
    EXPECT_EQ(pack_behind(lossy_, lossy_), lossy_);
    EXPECT_EQ(pack_behind(nullptr, zstd_), nullptr);
}

TEST_F(PackedStoreTest, SinksOfALossyPackingAreAnybodys) {
    class Sinks final : public EveryNth {
     public:
        using EveryNth::EveryNth;
        bool stands_on_exact(const SlabHeader&) const override { return true; }
    };
    const AlignedBytes slab = smooth_slab(1);
    ASSERT_TRUE(put_one(*packed(std::make_shared<Sinks>(1)), slab).ok());
    EXPECT_TRUE(reads_back(*packed(make_zstd_packing()), slab));
}

TEST_F(PackedStoreTest, LosslessIsProvenOnEachWrite) {
    const AlignedBytes slab = smooth_slab(1);
    auto store = packed(std::make_shared<Forgetful>());
    ASSERT_TRUE(put_one(*store, slab).ok());
    EXPECT_EQ(store->stats().packed_blocks, 0u);
    EXPECT_TRUE(reads_back(*store, slab));
}

TEST_F(PackedStoreTest, BxGivesEveryBitOfBf16Back) {
    KvLayout layout{.element = Element::bf16};
    layout.groups = {KvGroup{KvKind::full, 0, {0, 1, 2}, 2, 64}};
    const auto packing = make_bx_packing(layout);
    ASSERT_TRUE(packing.ok()) << packing.error().message;
    auto store = packed(*packing);
    // Numbers of like size, as keys and values are; then any bits at all.
    for (const bool numbers : {true, false}) {
        AlignedBytes slab =
            make_slab(numbers ? 1 : 2, 0, static_cast<uint32_t>(layout.layer_bytes(0)), 3);
        const size_t words = layout.payload_bytes(0) / 2;
        auto* word = reinterpret_cast<uint16_t*>(slab.span().data() + kSlabHeaderBytes);
        for (size_t i = 0; numbers && i < words; ++i)
            word[i] = static_cast<uint16_t>(0x3f00 + (mix(i) & 0x80ff));
        seal_slab(slab.span());
        EXPECT_TRUE(put_one(*store, slab).ok());
        EXPECT_TRUE(reads_back(*store, slab));
        EXPECT_EQ(store->stats().unpacked_blocks, 1u) << "only numbers shrink";
    }
    layout.element = Element::f16;
    EXPECT_EQ(make_bx_packing(layout).code(), Code::unsupported);
}

// Any bytes in place of what was packed: refused, or taken for some slab, but never read beyond.
TEST_F(PackedStoreTest, AnyBytesUnpackSafely) {
    KvLayout layout{.element = Element::bf16};
    layout.groups = {KvGroup{KvKind::full, 0, {0, 1}, 2, 64}};
    const std::shared_ptr<const SlabPacking> packings[] = {*make_bx_packing(layout),
                                                           make_zstd_packing()};
    AlignedBytes slab = make_slab(1, 0, static_cast<uint32_t>(layout.layer_bytes(0)), 2);
    for (const auto& packing : packings)
        for (uint64_t seed = 0; seed < 300; ++seed) {
            std::vector<std::byte> bytes(mix(seed) % 3000);
            for (size_t i = 0; i < bytes.size(); ++i)
                bytes[i] = static_cast<std::byte>(mix(seed * 7919 + i) >> (seed % 3 == 0 ? 8 : 61));
            (void)packing->unpack(bytes, slab.span());
        }
}

// At a hundredth of a core the slabs would take minutes; who is waited for does not rest.
TEST_F(PackedStoreTest, InAHurryItDoesNotRest) {
    inner_ = disk();
    auto store = make_packed_store(*inner_, {.packing = make_zstd_packing(), .pack_share = 1e-4});
    std::vector<AlignedBytes> slabs;
    std::vector<TierPut> puts;
    for (uint64_t i = 1; i <= 120; ++i) slabs.push_back(smooth_slab(i));
    for (const AlignedBytes& slab : slabs) puts.push_back(put_of(slab));
    Pending pending;
    ASSERT_TRUE(store->put(puts, pending.done()).ok());
    store->hurry(true);
    for (const Status& status : pending.wait()) EXPECT_TRUE(status.ok());
    EXPECT_EQ(store->stats().packed_blocks, 120u);
}

// Every field of the header that says how a slab is packed, changed alone under sound checksums.
TEST_F(PackedStoreTest, OneChangedFieldIsNeverBytes) {
    const EveryNth packing(16);
    const AlignedBytes slab = smooth_slab(1);
    std::vector<std::byte> scratch;
    const SlabBuffer sound = pack_slab(packing, slab.span(), &scratch);
    ASSERT_TRUE(sound);
    const std::pair<size_t, size_t> fields[] = {
        {offsetof(PackedPayload, packing), 4},     {offsetof(PackedPayload, version), 2},
        {offsetof(PackedPayload, layer_count), 2}, {offsetof(PackedPayload, layer_bytes), 4},
        {offsetof(PackedPayload, transform), 16},
    };
    for (const auto& [offset, bytes] : fields)
        for (size_t bit = 0; bit < 8 * bytes; ++bit) {
            AlignedBytes into(slab.size());
            std::memcpy(into.span().data(), sound.bytes().data(), sound.bytes().size());
            auto* field = reinterpret_cast<std::byte*>(&slab_header(into.span()).packed) + offset;
            field[bit / 8] ^= std::byte{1} << (bit % 8);
            EXPECT_FALSE(unpack_slab(packing, into.span(), &scratch).ok())
                << "byte " << offset << " bit " << bit;
        }
}

// One request of many comes back with a flipped bit, others of keys that are not there.
TEST_F(PackedStoreTest, FailedReadsAreMissesAndCostNobodyElse) {
    auto inner = make_io_engine({});
    ASSERT_TRUE(inner.ok());
    FaultIo faulty(std::move(*inner));
    auto store = packed(std::make_shared<EveryNth>(16), &faulty);
    std::vector<AlignedBytes> slabs, into;
    std::vector<TierPut> puts;
    std::vector<TierGet> gets;
    for (uint64_t i = 0; i < 80; ++i) {
        slabs.push_back(smooth_slab(i + 1));
        into.emplace_back(slabs[0].size());
        gets.push_back({i % 7 == 3 ? test_key(1000 + i) : test_key(i + 1), into.back().span()});
    }
    for (const AlignedBytes& slab : slabs) puts.push_back(put_of(slab));
    for (const Status& status : put_wait(*store, puts)) ASSERT_TRUE(status.ok());
    faulty.add({.kind = FaultKind::bit_flip, .bit = 8 * 5000, .op = IoOp::read});
    const std::vector<Status> results = get_wait(*store, gets);
    ASSERT_EQ(faulty.hits(), 1u);
    int corrupt = 0;
    for (uint64_t i = 0; i < 80; ++i) {
        if (i % 7 == 3) {
            EXPECT_EQ(results[i].code(), Code::miss) << i;
        } else if (!results[i].ok()) {
            EXPECT_EQ(results[i].code(), Code::corrupt) << i;
            EXPECT_FALSE(holds(*store, gets[i].key));
            ++corrupt;
        } else {
            EXPECT_TRUE(same_bytes(into[i], slabs[i])) << i;
        }
    }
    EXPECT_EQ(corrupt, 1);
    EXPECT_TRUE(get_wait(*store, {}).empty());
    store.reset();  // before what it reads by
    inner_.reset();
}

// Counts how many unpack at once.
class Counting final : public EveryNth {
 public:
    Counting() : EveryNth(16) {}
    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        most = std::max<int>(most, ++now);
        const Status done = EveryNth::unpack(packed, slab);
        --now;
        return done;
    }
    mutable std::atomic<int> now = 0, most = 0;
};

// Stores that share their unpackers take no more threads together, and may end in any order.
TEST_F(PackedStoreTest, AllUnpackOnTheThreadsThatTheyAreGiven) {
    inner_ = disk();
    const auto counting = std::make_shared<Counting>();
    std::unique_ptr<TierStore> stores[3];
    auto unpackers = make_unpackers(1);
    for (auto& store : stores)
        store = make_packed_store(*inner_,
                                  {.packing = counting, .unpackers = unpackers, .pack_share = 1.0});
    unpackers.reset();
    std::vector<AlignedBytes> slabs, into;
    for (uint64_t i = 1; i <= 30; ++i) {
        slabs.push_back(smooth_slab(i));
        ASSERT_TRUE(put_one(*stores[0], slabs.back()).ok());
    }
    for (size_t i = 0; i < 3 * slabs.size(); ++i) into.emplace_back(slabs[0].size());
    Pending pending[3];
    for (size_t s = 0; s < 3; ++s) {
        std::vector<TierGet> gets;
        for (size_t i = 0; i < slabs.size(); ++i)
            gets.push_back({test_key(i + 1), into[s * slabs.size() + i].span()});
        ASSERT_TRUE(stores[s]->get(gets, pending[s].done(), {}).ok());
    }
    for (size_t s : {1, 0, 2}) {
        stores[s].reset();  // waits for what it has in hand
        ASSERT_TRUE(pending[s].ready());
        for (const Status& status : pending[s].wait()) EXPECT_TRUE(status.ok());
        for (size_t i = 0; i < slabs.size(); ++i)
            EXPECT_TRUE(same_bytes(into[s * slabs.size() + i], slabs[i]));
    }
    EXPECT_EQ(counting->most, 1);
}

// More gets at once than the store below takes: busy is an answer, and every block has one.
TEST_F(PackedStoreTest, ManyGetsAtOnceAllEnd) {
    auto store = packed(std::make_shared<EveryNth>(16));
    const AlignedBytes slab = smooth_slab(1);
    ASSERT_TRUE(put_one(*store, slab).ok());
    std::vector<AlignedBytes> into;
    std::vector<Pending> pending(600);
    size_t refused = 0;
    for (Pending& p : pending) {
        into.emplace_back(slab.size());
        const Status accepted = store->get({{test_key(1), into.back().span()}}, p.done(), {});
        if (accepted.ok()) continue;
        EXPECT_EQ(accepted.code(), Code::busy);
        p.done()(std::vector<Status>{accepted});
        ++refused;
    }
    size_t ok = 0;
    for (size_t i = 0; i < pending.size(); ++i) {
        const std::vector<Status> results = pending[i].wait();
        if (!results[0].ok()) continue;
        ++ok;
        EXPECT_TRUE(same_bytes(into[i], slab));
    }
    EXPECT_EQ(ok + refused, pending.size());
}

}  // namespace
}  // namespace quire
