// Cutting slabs, counting pieces, and what both stores tell while a batch lands.
#include "tier/landing.h"

#include <algorithm>
#include <condition_variable>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/fault_io.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/temp_dir.h"

namespace quire {
namespace {

using namespace quire::testing;

constexpr uint16_t kSlabLayers = 8;
constexpr uint32_t kSlabLayerBytes = 64 << 10;
constexpr size_t kBatch = 5;

TEST(CutSlab, CoversEverySlabInOrderAtSafePlaces) {
    std::mt19937 rng(3);
    for (int round = 0; round < 2000; ++round) {
        const uint32_t layers = 1 + rng() % 80;
        const uint32_t layer_bytes = 512 * (1 + rng() % (round % 2 ? 8 : 300));
        SCOPED_TRACE(std::to_string(layers) + " layers of " + std::to_string(layer_bytes));
        const std::vector<SlabPiece> pieces = cut_slab(layers, layer_bytes);
        ASSERT_LE(pieces.size(), kPiecesMax + 1);
        uint32_t layer = 0;
        size_t at = 0;
        for (const SlabPiece& piece : pieces) {
            ASSERT_EQ(piece.first_layer, layer);
            ASSERT_GT(piece.end_layer, layer);
            ASSERT_EQ(piece.offset, at);
            ASSERT_EQ(piece.bytes % kSlabAlign, 0u);
            ASSERT_GE(piece.bytes, pieces.size() > 1 ? kPieceBytesMin / 2 : 1);
            layer = piece.end_layer;
            at += piece.bytes;
            ASSERT_GE(at, kSlabHeaderBytes + size_t{layer} * layer_bytes) << "a layer is cut";
        }
        ASSERT_EQ(layer, layers);
        ASSERT_EQ(at, slab_bytes_for(size_t{layers} * layer_bytes));
    }
    EXPECT_EQ(cut_slab(30, 12288).size(), 3u);
    EXPECT_EQ(cut_slab(3, 16384).size(), 1u);
}

TEST(LandingCount, TellsOnlyWhatHasLandedInEverySlab) {
    std::vector<uint32_t> told;
    int failures = 0;
    TierLanding landing{6, 1, [&](uint32_t n) { told.push_back(n); }, [&] { ++failures; }};
    LandingCount count(landing, {{0, 1, 0, 0}, {1, 4, 0, 0}, {4, 6, 0, 0}}, 2);
    count.landed(1);
    count.landed(1);  // before the first: nothing to tell
    count.landed(0);
    EXPECT_TRUE(told.empty());
    count.landed(0);
    EXPECT_EQ(told, (std::vector<uint32_t>{4}));
    count.landed(2);
    count.failed();
    count.failed();
    EXPECT_EQ(told, (std::vector<uint32_t>{4}));
    EXPECT_EQ(failures, 1);
}

// A store that holds slabs 1 to kBatch, and one get of all of them.
class Landings {
 public:
    explicit Landings(bool disk) {
        for (uint64_t i = 1; i <= kBatch; ++i)
            slabs_.push_back(make_slab(i, i - 1, kSlabLayerBytes, kSlabLayers));
        if (!disk) {
            HostOptions options;
            options.layout.groups = {KvGroup{KvKind::full, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 16, 64}};
            options.capacity_bytes = 64 << 20;
            store_ = std::move(open_host_store(options)).value();
            return;
        }
        faults = std::make_unique<FaultIo>(std::move(make_io_engine({})).value());
        DiskOptions options;
        options.dir = dir_.path();
        options.capacity_bytes = 64 << 20;
        options.io = faults.get();
        options.read_threads = 1;  // reads in a known order
        options.at_once_bytes = 0;
        store_ = std::move(open_disk_store(options)).value();
    }

    TierStore& store() { return *store_; }
    AlignedBytes& slab(size_t i) { return slabs_[i]; }
    std::vector<SlabPiece> pieces() const { return cut_slab(kSlabLayers, kSlabLayerBytes); }

    void put_all() {
        std::vector<TierPut> puts;
        for (const AlignedBytes& slab : slabs_) puts.push_back(put_of(slab));
        for (const Status& status : put_wait(*store_, puts)) ASSERT_TRUE(status.ok());
        ASSERT_TRUE(store_->flush(kTestTimeoutNs).ok());
    }

    void get(std::vector<uint64_t> numbers = {1, 2, 3, 4, 5}) {
        std::vector<TierGet> gets;
        into_.clear();
        for (uint64_t number : numbers) {
            into_.emplace_back(slabs_[0].size());
            std::memset(into_.back().span().data(), 0x5a, into_.back().size());
            gets.push_back({test_key(number), into_.back().span()});
        }
        numbers_ = std::move(numbers);
        TierLanding landing{kSlabLayers, kSlabLayerBytes, [this](uint32_t n) { on_landed(n); },
                            [this] {
                                std::lock_guard lock(mutex_);
                                failed = true;
                            }};
        ASSERT_TRUE(store_->get(std::move(gets), pending_.done(), landing).ok());
    }
    std::vector<Status> wait() { return pending_.wait(); }
    bool done() const { return pending_.ready(); }
    uint32_t wait_landed(uint32_t at_least) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !landed.empty() && landed.back() >= at_least; });
        return landed.back();
    }

    std::unique_ptr<FaultIo> faults;
    std::vector<uint32_t> landed;
    bool failed = false;
    bool wrong_bytes = false;

 private:
    // What is said to have landed is looked at there and then.
    void on_landed(uint32_t n) {
        std::lock_guard lock(mutex_);
        const size_t end = kSlabHeaderBytes + size_t{n} * kSlabLayerBytes;
        for (size_t i = 0; i < numbers_.size(); ++i)
            wrong_bytes |= std::memcmp(into_[i].span().data(),
                                       slabs_[numbers_[i] - 1].span().data(), end) != 0;
        landed.push_back(n);
        changed_.notify_all();
    }

    TempDir dir_;
    std::vector<AlignedBytes> slabs_;
    std::vector<AlignedBytes> into_;
    std::vector<uint64_t> numbers_;
    std::mutex mutex_;
    std::condition_variable changed_;
    Pending pending_;
    std::unique_ptr<TierStore> store_;  // last: its threads use everything above
};

class StoreLanding : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Stores, StoreLanding, ::testing::Bool(),
                         [](const auto& row) { return std::string(row.param ? "disk" : "host"); });

TEST_P(StoreLanding, TellsEachPieceOnceItsBytesAreThere) {
    Landings landings(GetParam());
    landings.put_all();
    landings.get();
    for (const Status& status : landings.wait()) EXPECT_TRUE(status.ok());
    ASSERT_GT(landings.pieces().size(), 2u) << "the slabs are too small for this test";
    EXPECT_TRUE(std::is_sorted(landings.landed.begin(), landings.landed.end()));
    ASSERT_FALSE(landings.landed.empty());
    EXPECT_EQ(landings.landed.back(), kSlabLayers);
    EXPECT_FALSE(landings.wrong_bytes);
    EXPECT_FALSE(landings.failed);
}

TEST_P(StoreLanding, AMissingBlockFailsTheBatchAndSpoilsNobody) {
    Landings landings(GetParam());
    landings.put_all();
    landings.get({1, 2, 99, 4});
    const std::vector<Status> results = landings.wait();
    EXPECT_EQ(results[2].code(), Code::miss);
    for (size_t i : {0, 1, 3}) EXPECT_TRUE(results[i].ok());
    EXPECT_TRUE(landings.failed);
    EXPECT_TRUE(landings.landed.empty());
}

TEST(DiskLanding, AShortGetLandsAtOnceAndSaysSo) {
    TempDir dir;
    auto io = std::move(make_io_engine({})).value();
    DiskOptions options;
    options.dir = dir.path();
    options.capacity_bytes = 64 << 20;
    options.io = io.get();
    auto store = std::move(open_disk_store(options)).value();
    const AlignedBytes slab = make_slab(1, 0, kSlabLayerBytes, kSlabLayers);
    ASSERT_LE(slab.size(), store->info().at_once_bytes);
    for (const Status& status : put_wait(*store, {put_of(slab)})) ASSERT_TRUE(status.ok());
    AlignedBytes into(slab.size());
    std::atomic<bool> told{false};
    Pending pending;
    ASSERT_TRUE(store
                    ->get({{test_key(1), into.span()}}, pending.done(),
                          {kSlabLayers, kSlabLayerBytes, [&](uint32_t) { told = true; },
                           [&] { told = true; }})
                    .ok());
    EXPECT_TRUE(pending.wait()[0].ok());
    EXPECT_FALSE(told);
    EXPECT_EQ(std::memcmp(into.span().data(), slab.span().data(), slab.size()), 0);
}

// Slabs too small to be cut are read as runs of neighbours, and land when all of them have.
TEST(DiskLanding, SlabsOfOnePieceLandTogether) {
    constexpr uint32_t kLayerBytes = 4096;
    ASSERT_EQ(cut_slab(kSlabLayers, kLayerBytes).size(), 1u);
    TempDir dir;
    FaultIo io(std::move(make_io_engine({})).value());
    DiskOptions options;
    options.dir = dir.path();
    options.capacity_bytes = 64 << 20;
    options.io = &io;
    options.at_once_bytes = 0;
    auto store = std::move(open_disk_store(options)).value();
    std::vector<AlignedBytes> slabs, into;
    std::vector<TierPut> puts;
    for (uint64_t i = 1; i <= kBatch; ++i)
        slabs.push_back(make_slab(i, i - 1, kLayerBytes, kSlabLayers));
    for (const AlignedBytes& slab : slabs) puts.push_back(put_of(slab));
    for (const Status& status : put_wait(*store, puts)) ASSERT_TRUE(status.ok());
    for (const bool damaged : {false, true}) {
        if (damaged)
            io.add({.kind = FaultKind::bit_flip, .bit = 99'999, .op = IoOp::read, .times = 1});
        std::vector<TierGet> gets;
        into.clear();
        for (uint64_t i = 1; i <= kBatch; ++i) into.emplace_back(slabs[0].size());
        for (uint64_t i = 1; i <= kBatch; ++i) gets.push_back({test_key(i), into[i - 1].span()});
        std::atomic<uint32_t> landed{0};
        std::atomic<bool> failed{false};
        Pending pending;
        ASSERT_TRUE(store
                        ->get(std::move(gets), pending.done(),
                              {kSlabLayers, kLayerBytes, [&](uint32_t n) { landed = n; },
                               [&] { failed = true; }})
                        .ok());
        const auto results = pending.wait();
        EXPECT_EQ(std::ranges::count_if(results, [](const Status& s) { return !s.ok(); }), damaged);
        EXPECT_EQ(landed, damaged ? 0 : kSlabLayers);
        EXPECT_EQ(failed, damaged);
    }
}

TEST(HostLanding, ADamagedLayerNeverLands) {
    for (uint32_t layer = 0; layer < kSlabLayers; ++layer) {
        SCOPED_TRACE(layer);
        Landings landings(false);
        // The pool checks a slab's layers when they are read.
        landings.slab(3).span()[kSlabHeaderBytes + layer * kSlabLayerBytes + 77] ^= std::byte{4};
        landings.put_all();
        landings.get();
        const std::vector<Status> results = landings.wait();
        for (size_t i = 0; i < kBatch; ++i)
            EXPECT_EQ(results[i].code(), i == 3 ? Code::corrupt : Code::ok);
        EXPECT_TRUE(landings.failed);
        for (uint32_t n : landings.landed) EXPECT_LE(n, layer);
        EXPECT_FALSE(holds(landings.store(), test_key(4)));
    }
}

TEST(DiskLanding, APieceThatIsHeldBackHoldsItsLayersBack) {
    Landings landings(true);
    landings.put_all();
    const uint32_t first = landings.pieces()[0].end_layer;
    Fault hold{.kind = FaultKind::hold, .op = IoOp::read, .skip = kBatch, .times = kAlways};
    landings.faults->add(hold);
    landings.get();
    EXPECT_EQ(landings.wait_landed(1), first);
    EXPECT_FALSE(landings.done());
    landings.faults->clear();
    while (!landings.done()) {
        landings.faults->release_held();
        std::this_thread::yield();
    }
    for (const Status& status : landings.wait()) EXPECT_TRUE(status.ok());
    EXPECT_EQ(landings.landed.back(), kSlabLayers);
    EXPECT_FALSE(landings.wrong_bytes);
}

TEST(DiskLanding, PiecesMayArriveInAnyOrder) {
    Landings landings(true);
    landings.put_all();
    // The first piece of the first slab comes last.
    const uint64_t before = landings.faults->stats().read_bytes;
    Fault hold{.kind = FaultKind::hold, .op = IoOp::read, .times = 1};
    landings.faults->add(hold);
    landings.get();
    const size_t others = kBatch * landings.slab(0).size() - landings.pieces()[0].bytes;
    while (landings.faults->stats().read_bytes < before + others) std::this_thread::yield();
    EXPECT_TRUE(landings.landed.empty());
    while (!landings.done()) {
        landings.faults->release_held();
        std::this_thread::yield();
    }
    for (const Status& status : landings.wait()) EXPECT_TRUE(status.ok());
    EXPECT_EQ(landings.landed.back(), kSlabLayers);
    EXPECT_FALSE(landings.wrong_bytes);
}

TEST(DiskLanding, AnyDamagedPieceFailsItsSlabAlone) {
    const size_t pieces = cut_slab(kSlabLayers, kSlabLayerBytes).size();
    for (const FaultKind kind : {FaultKind::bit_flip, FaultKind::error, FaultKind::cut}) {
        for (size_t piece = 0; piece < pieces; ++piece) {
            SCOPED_TRACE("piece " + std::to_string(piece) + ", fault " +
                         std::to_string(static_cast<int>(kind)));
            Landings landings(true);
            landings.put_all();
            landings.faults->add({.kind = kind,
                                  .bytes = 4096,
                                  .bit = 99'999,
                                  .op = IoOp::read,
                                  .skip = piece * kBatch + 2});
            landings.get();
            const std::vector<Status> results = landings.wait();
            for (size_t i = 0; i < kBatch; ++i) EXPECT_EQ(results[i].ok(), i != 2) << i;
            EXPECT_TRUE(landings.failed);
            for (uint32_t n : landings.landed) EXPECT_LE(n, landings.pieces()[piece].first_layer);
            EXPECT_FALSE(landings.wrong_bytes);
            EXPECT_FALSE(holds(landings.store(), test_key(3)));
        }
    }
}

}  // namespace
}  // namespace quire
