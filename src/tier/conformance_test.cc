// What every TierStore promises (tier.h), checked over every store there is. A new store joins by
// one row in kStores.
#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/io.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/packed/packed_store.h"
#include "tier/packed/zstd_packing.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/temp_dir.h"
#include "tier/testing/test_slab.h"
#include "tier/tier.h"

namespace quire {
namespace {

using namespace quire::testing;

// Two layers of 8 KiB: what test_layout() gives and make_slab() makes by default.
KvLayout test_layout() {
    KvLayout layout;
    layout.block_tokens = 16;
    layout.groups = {KvGroup{KvKind::full, 0, {0, 1}, 2, 64}};
    return layout;
}

// Callbacks may run a moment before the gauge falls; it must fall all the same.
bool settles(const TierStore& store) {
    const int64_t end = system_clock().monotonic_ns() + kTestTimeoutNs;
    while (store.stats().pending > 0 && system_clock().monotonic_ns() < end) {
        std::this_thread::yield();
    }
    return store.stats().pending == 0;
}

// A store and what it stands on.
struct Bench {
    std::unique_ptr<TempDir> dir;
    std::unique_ptr<IoEngine> io;
    std::unique_ptr<TierStore> inner;
    std::unique_ptr<TierStore> store;
};

struct StoreRow {
    std::string name;
    std::function<Bench(uint64_t capacity_bytes, uint32_t queue_max)> make;
    friend void PrintTo(const StoreRow& row, std::ostream* out) { *out << row.name; }
};

Bench make_disk(bool direct, IoKind kind, uint64_t capacity_bytes, uint32_t queue_max) {
    Bench bench;
    bench.dir = std::make_unique<TempDir>();
    IoOptions io_options;
    io_options.kind = kind;
    auto io = make_io_engine(io_options);
    QUIRE_CHECK(io.ok(), "no I/O engine");
    bench.io = std::move(*io);
    DiskOptions options;
    options.dir = bench.dir->path();
    options.capacity_bytes = capacity_bytes;
    options.direct_io = direct;
    options.max_pending_batches = queue_max;
    options.io = bench.io.get();
    auto store = open_disk_store(options);
    QUIRE_CHECK(store.ok(), store.ok() ? "" : store.error().message.c_str());
    bench.store = std::move(*store);
    return bench;
}

Bench make_host(uint64_t capacity_bytes, uint32_t queue_max, bool any_size) {
    Bench bench;
    HostOptions options;
    options.layout = test_layout();
    options.capacity_bytes = capacity_bytes;
    options.any_size = any_size;
    options.queue_max = queue_max;
    auto store = open_host_store(options);
    QUIRE_CHECK(store.ok(), store.ok() ? "" : store.error().message.c_str());
    bench.store = std::move(*store);
    return bench;
}

Bench pack(Bench bench, uint32_t queue_max) {
    bench.inner = std::move(bench.store);
    bench.store = make_packed_store(
        *bench.inner,
        {.packing = make_zstd_packing(), .pack_share = 1.0, .max_pending_batches = queue_max});
    return bench;
}

const std::vector<StoreRow>& stores() {
    static const std::vector<StoreRow> rows = {
        {"host", [](uint64_t c, uint32_t q) { return make_host(c, q, false); }},
        {"host_any_size", [](uint64_t c, uint32_t q) { return make_host(c, q, true); }},
        {"host_packed", [](uint64_t c, uint32_t q) { return pack(make_host(c, q, true), q); }},
        {"disk_direct",
         [](uint64_t c, uint32_t q) { return make_disk(true, IoKind::automatic, c, q); }},
        {"disk_buffered",
         [](uint64_t c, uint32_t q) { return make_disk(false, IoKind::automatic, c, q); }},
        {"disk_threads",
         [](uint64_t c, uint32_t q) { return make_disk(true, IoKind::threads, c, q); }},
        {"disk_packed",
         [](uint64_t c, uint32_t q) { return pack(make_disk(true, IoKind::automatic, c, q), q); }},
    };
    return rows;
}

class TierConformance : public ::testing::TestWithParam<StoreRow> {
 protected:
    Bench make(uint64_t capacity_bytes = 64 << 20, uint32_t queue_max = 64) {
        return GetParam().make(capacity_bytes, queue_max);
    }
};

TEST_P(TierConformance, SaysWhatItIs) {
    Bench bench = make();
    TierInfo info = bench.store->info();
    EXPECT_FALSE(info.name.empty());
    EXPECT_EQ(info.capacity_bytes, bench.store->stats().capacity_bytes);
    EXPECT_GT(info.capacity_bytes, 0u);
}

TEST_P(TierConformance, GivesBackWhatWasPut) {
    Bench bench = make();
    std::vector<AlignedBytes> slabs;
    std::vector<TierPut> puts;
    for (uint64_t i = 1; i <= 20; i++) slabs.push_back(make_slab(i, i - 1));
    for (const auto& slab : slabs) {
        EXPECT_FALSE(holds(*bench.store, slab_header(slab.span()).key));
        puts.push_back(put_of(slab));
    }
    for (const Status& status : put_wait(*bench.store, puts)) EXPECT_TRUE(status.ok());
    std::vector<TierGet> gets;
    std::vector<AlignedBytes> into;
    for (const auto& slab : slabs) into.emplace_back(slab.size());
    for (size_t i = 0; i < slabs.size(); i++) gets.push_back({puts[i].key, into[i].span()});
    std::vector<Status> results = get_wait(*bench.store, gets);
    for (size_t i = 0; i < slabs.size(); i++) {
        EXPECT_TRUE(results[i].ok()) << results[i].error().message;
        EXPECT_TRUE(same_bytes(slabs[i], into[i])) << i;
        EXPECT_TRUE(holds(*bench.store, puts[i].key));
    }
}

TEST_P(TierConformance, UnknownKeyIsAMissAndDoesNotSpoilItsBatch) {
    Bench bench = make();
    AlignedBytes slab = make_slab(1);
    ASSERT_TRUE(put_one(*bench.store, slab).ok());
    AlignedBytes into(slab.size()), other(slab.size());
    auto results =
        get_wait(*bench.store, {{test_key(99), other.span()}, {test_key(1), into.span()}});
    EXPECT_EQ(results[0].code(), Code::miss);
    EXPECT_TRUE(results[1].ok());
    EXPECT_TRUE(same_bytes(slab, into));
}

TEST_P(TierConformance, BufferOfAnotherSizeIsRefused) {
    Bench bench = make();
    AlignedBytes slab = make_slab(1);
    ASSERT_TRUE(put_one(*bench.store, slab).ok());
    AlignedBytes small(slab.size() - 4096), large(slab.size() + 4096), into(slab.size());
    auto results = get_wait(
        *bench.store,
        {{test_key(1), small.span()}, {test_key(1), large.span()}, {test_key(1), into.span()}});
    EXPECT_EQ(results[0].code(), Code::invalid);
    EXPECT_EQ(results[1].code(), Code::invalid);
    EXPECT_TRUE(results[2].ok());
    EXPECT_TRUE(reads_back(*bench.store, slab)) << "a wrong buffer must not cost the block";
}

TEST_P(TierConformance, PuttingTwiceIsOkAndKeepsOneBlock) {
    Bench bench = make();
    AlignedBytes slab = make_slab(7);
    EXPECT_TRUE(put_one(*bench.store, slab).ok());
    EXPECT_TRUE(put_one(*bench.store, slab).ok());
    for (const Status& status : put_wait(*bench.store, {put_of(slab), put_of(slab)})) {
        EXPECT_TRUE(status.ok());
    }
    EXPECT_EQ(bench.store->stats().blocks, 1u);
    EXPECT_TRUE(reads_back(*bench.store, slab));
}

TEST_P(TierConformance, OneKeyTwiceInOneBatchIsOneBlock) {
    Bench bench = make();
    AlignedBytes slab = make_slab(7);
    for (const Status& status : put_wait(*bench.store, {put_of(slab), put_of(slab)})) {
        EXPECT_TRUE(status.ok());
    }
    EXPECT_EQ(bench.store->stats().blocks, 1u);
    EXPECT_TRUE(reads_back(*bench.store, slab));
}

TEST_P(TierConformance, BadSlabIsRefusedAloneInItsBatch) {
    Bench bench = make();
    AlignedBytes good = make_slab(1), unsealed = make_slab(2), renamed = make_slab(3);
    slab_header(unsealed.span()).token_count++;
    std::vector<TierPut> puts = {put_of(unsealed), put_of(good), put_of(renamed)};
    puts[2].key = test_key(4);
    auto results = put_wait(*bench.store, puts);
    EXPECT_FALSE(results[0].ok());
    EXPECT_TRUE(results[1].ok());
    EXPECT_FALSE(results[2].ok());
    EXPECT_FALSE(holds(*bench.store, test_key(2)));
    EXPECT_FALSE(holds(*bench.store, test_key(4)));
    EXPECT_TRUE(reads_back(*bench.store, good));
}

TEST_P(TierConformance, EraseForgetsAndIgnoresTheUnknown) {
    Bench bench = make();
    AlignedBytes a = make_slab(1), b = make_slab(2);
    put_wait(*bench.store, {put_of(a), put_of(b)});
    std::vector<BlockKey> keys = {test_key(1), test_key(55)};
    bench.store->erase(keys);
    EXPECT_FALSE(holds(*bench.store, test_key(1)));
    AlignedBytes into(a.size());
    EXPECT_EQ(get_one(*bench.store, test_key(1), into).code(), Code::miss);
    EXPECT_TRUE(reads_back(*bench.store, b));
    EXPECT_TRUE(put_one(*bench.store, a).ok()) << "an erased block may come back";
    EXPECT_TRUE(reads_back(*bench.store, a));
}

TEST_P(TierConformance, ListsWhatItHolds) {
    Bench bench = make();
    if (!bench.store->info().caps.lists) {
        EXPECT_EQ(bench.store->list().code(), Code::unsupported);
        return;
    }
    AlignedBytes a = make_slab(1), b = make_slab(2, 1);
    put_wait(*bench.store, {put_of(a), put_of(b)});
    auto entries = bench.store->list();
    ASSERT_TRUE(entries.ok());
    ASSERT_EQ(entries->size(), 2u);
    for (const TierEntry& entry : *entries) {
        EXPECT_EQ(entry.bytes, a.size());
        BlockKey parent = entry.key == test_key(2) ? test_key(1) : BlockKey{};
        EXPECT_EQ(entry.parent_key, parent);
    }
}

TEST_P(TierConformance, CountsWhatItDoes) {
    Bench bench = make();
    AlignedBytes slab = make_slab(1);
    ASSERT_TRUE(put_one(*bench.store, slab).ok());
    AlignedBytes into(slab.size());
    EXPECT_TRUE(get_one(*bench.store, test_key(1), into).ok());
    EXPECT_FALSE(get_one(*bench.store, test_key(2), into).ok());
    EXPECT_TRUE(settles(*bench.store));
    TierStats stats = bench.store->stats();
    EXPECT_EQ(stats.blocks, 1u);
    EXPECT_EQ(stats.puts, 1u);
    EXPECT_EQ(stats.put_bytes, slab.size());
    EXPECT_EQ(stats.gets, 2u);
    EXPECT_EQ(stats.get_hits, 1u);
    EXPECT_EQ(stats.get_bytes, slab.size());
    EXPECT_FALSE(stats.degraded) << stats.degraded_why;
    EXPECT_GE(stats.used_bytes, slab.size());
    EXPECT_LE(stats.used_bytes, stats.capacity_bytes);
}

TEST_P(TierConformance, FlushReturnsWhenNothingWaits) {
    Bench bench = make();
    std::vector<AlignedBytes> slabs;
    std::vector<Pending> pending(8);
    for (uint64_t i = 1; i <= 8; i++) slabs.push_back(make_slab(i));
    for (size_t i = 0; i < 8; i++) {
        ASSERT_TRUE(bench.store->put({put_of(slabs[i])}, pending[i].done()).ok());
    }
    EXPECT_TRUE(bench.store->flush(kTestTimeoutNs).ok());
    for (const AlignedBytes& slab : slabs) {
        EXPECT_TRUE(holds(*bench.store, slab_header(slab.span()).key));
    }
    for (Pending& p : pending) p.wait();
}

TEST_P(TierConformance, StaysInsideItsLimitAndKeepsServing) {
    const uint64_t capacity = 8 << 20;
    Bench bench = make(capacity);
    for (uint64_t i = 1; i <= 1000; i += 10) {
        std::vector<AlignedBytes> slabs;
        std::vector<TierPut> puts;
        for (uint64_t j = i; j < i + 10; j++) slabs.push_back(make_slab(j));
        for (const auto& slab : slabs) puts.push_back(put_of(slab));
        for (const Status& status : put_wait(*bench.store, puts)) {
            ASSERT_TRUE(status.ok()) << i << ": " << status.error().message;
        }
        ASSERT_TRUE(reads_back(*bench.store, slabs[i % 7])) << i;
        ASSERT_LE(bench.store->stats().used_bytes, capacity);
    }
    TierStats stats = bench.store->stats();
    EXPECT_GT(stats.evicted_blocks, 500u);
    EXPECT_GT(stats.blocks, 100u);
}

TEST_P(TierConformance, QueueIsBounded) {
    Bench bench = make(64 << 20, 2);
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= 400; i++) slabs.push_back(make_slab(i));
    std::vector<Pending> pending;
    size_t refused = 0;
    for (const AlignedBytes& slab : slabs) {
        Pending p;
        Status status = bench.store->put({put_of(slab)}, p.done());
        if (status.ok()) {
            pending.push_back(std::move(p));
        } else {
            EXPECT_EQ(status.code(), Code::busy);
            refused++;
        }
        EXPECT_LE(bench.store->stats().pending, 4u);
    }
    for (Pending& p : pending) EXPECT_TRUE(p.wait()[0].ok());
    EXPECT_EQ(bench.store->stats().blocks, slabs.size() - refused);
}

TEST_P(TierConformance, FourThreadsAtOnce) {
    Bench bench = make(16 << 20, 256);
    constexpr uint64_t kBlocks = 200;
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= kBlocks; i++) slabs.push_back(make_slab(i, i / 2));
    std::atomic<uint64_t> wrong{0};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            std::mt19937_64 random(t + 1);
            AlignedBytes into(slabs[0].size());
            for (int step = 0; step < 300; step++) {
                const AlignedBytes& slab = slabs[random() % kBlocks];
                BlockKey key = slab_header(slab.span()).key;
                switch (random() % 4) {
                    case 0:
                        (void)put_one(*bench.store, slab);
                        break;
                    case 1:
                        bench.store->erase(std::span(&key, 1));
                        break;
                    case 2:
                        holds(*bench.store, key);
                        break;
                    default: {
                        Status status = get_one(*bench.store, key, into);
                        bool right = status.ok() ? same_bytes(slab, into)
                                                 : status.code() == Code::miss ||
                                                       status.code() == Code::busy;
                        if (!right) wrong++;
                    }
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0u);
    EXPECT_TRUE(settles(*bench.store));
    EXPECT_EQ(bench.store->stats().corrupt_blocks, 0u);
}

TEST_P(TierConformance, DestructionWaitsForWorkInFlight) {
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= 32; i++) slabs.push_back(make_slab(i));
    std::vector<Pending> pending(slabs.size());
    {
        Bench bench = make();
        for (size_t i = 0; i < slabs.size(); i++) {
            ASSERT_TRUE(bench.store->put({put_of(slabs[i])}, pending[i].done()).ok());
        }
    }
    for (Pending& p : pending) {
        ASSERT_TRUE(p.ready());
        EXPECT_TRUE(p.wait()[0].ok());
    }
}

INSTANTIATE_TEST_SUITE_P(AllStores, TierConformance, ::testing::ValuesIn(stores()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace quire
