#include "tier/testing/conformance.h"

#include <atomic>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tier/testing/sync_store.h"
#include "tier/testing/test_slab.h"

// A broken promise ends its check.
#define PROMISED(condition, message)                                               \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::ostringstream out;                                                \
            out << __FILE__ << ":" << __LINE__ << ": " #condition ": " << message; \
            throw NotAsPromised{out.str()};                                        \
        }                                                                          \
    } while (false)

namespace quire::testing {
namespace {

constexpr uint64_t kCapacityBytes = 64 << 20;
constexpr uint32_t kQueueMax = 64;

// Callbacks may run a moment before the gauge falls; it must fall all the same.
bool settles(const TierStore& store) {
    const int64_t end = system_clock().monotonic_ns() + kTestTimeoutNs;
    while (store.stats().pending > 0 && system_clock().monotonic_ns() < end) {
        std::this_thread::yield();
    }
    return store.stats().pending == 0;
}

void says_what_it_is(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    TierInfo info = bench.store->info();
    PROMISED(!info.name.empty(), "");
    PROMISED(info.capacity_bytes == bench.store->stats().capacity_bytes, info.capacity_bytes);
    PROMISED(info.capacity_bytes > 0u, info.capacity_bytes);
}

void gives_back_what_was_put(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    std::vector<AlignedBytes> slabs;
    std::vector<TierPut> puts;
    for (uint64_t i = 1; i <= 20; i++) slabs.push_back(make_slab(i, i - 1));
    for (const auto& slab : slabs) {
        PROMISED(!holds(*bench.store, slab_header(slab.span()).key), "");
        puts.push_back(put_of(slab));
    }
    for (const Status& status : put_wait(*bench.store, puts)) PROMISED(status.ok(), "");
    std::vector<TierGet> gets;
    std::vector<AlignedBytes> into;
    for (const auto& slab : slabs) into.emplace_back(slab.size());
    for (size_t i = 0; i < slabs.size(); i++) gets.push_back({puts[i].key, into[i].span()});
    std::vector<Status> results = get_wait(*bench.store, gets);
    for (size_t i = 0; i < slabs.size(); i++) {
        PROMISED(results[i].ok(), results[i].error().message);
        PROMISED(same_bytes(slabs[i], into[i]), i);
        PROMISED(holds(*bench.store, puts[i].key), "");
    }
}

void unknown_key_is_a_miss_and_does_not_spoil_its_batch(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes slab = make_slab(1);
    PROMISED(put_one(*bench.store, slab).ok(), "");
    AlignedBytes into(slab.size()), other(slab.size());
    auto results =
        get_wait(*bench.store, {{test_key(99), other.span()}, {test_key(1), into.span()}});
    PROMISED(results[0].code() == Code::miss, "");
    PROMISED(results[1].ok(), "");
    PROMISED(same_bytes(slab, into), "");
}

void buffer_of_another_size_is_refused(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes slab = make_slab(1);
    PROMISED(put_one(*bench.store, slab).ok(), "");
    AlignedBytes small(slab.size() - 4096), large(slab.size() + 4096), into(slab.size());
    auto results = get_wait(
        *bench.store,
        {{test_key(1), small.span()}, {test_key(1), large.span()}, {test_key(1), into.span()}});
    PROMISED(results[0].code() == Code::invalid, "");
    PROMISED(results[1].code() == Code::invalid, "");
    PROMISED(results[2].ok(), "");
    PROMISED(reads_back(*bench.store, slab), "a wrong buffer must not cost the block");
}

void putting_twice_is_ok_and_keeps_one_block(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes slab = make_slab(7);
    PROMISED(put_one(*bench.store, slab).ok(), "");
    PROMISED(put_one(*bench.store, slab).ok(), "");
    for (const Status& status : put_wait(*bench.store, {put_of(slab), put_of(slab)})) {
        PROMISED(status.ok(), "");
    }
    PROMISED(bench.store->stats().blocks == 1u, bench.store->stats().blocks);
    PROMISED(reads_back(*bench.store, slab), "");
}

void one_key_twice_in_one_batch_is_one_block(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes slab = make_slab(7);
    for (const Status& status : put_wait(*bench.store, {put_of(slab), put_of(slab)})) {
        PROMISED(status.ok(), "");
    }
    PROMISED(bench.store->stats().blocks == 1u, bench.store->stats().blocks);
    PROMISED(reads_back(*bench.store, slab), "");
}

void bad_slab_is_refused_alone_in_its_batch(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes good = make_slab(1), unsealed = make_slab(2), renamed = make_slab(3);
    slab_header(unsealed.span()).token_count++;
    std::vector<TierPut> puts = {put_of(unsealed), put_of(good), put_of(renamed)};
    puts[2].key = test_key(4);
    auto results = put_wait(*bench.store, puts);
    PROMISED(!results[0].ok(), "");
    PROMISED(results[1].ok(), "");
    PROMISED(!results[2].ok(), "");
    PROMISED(!holds(*bench.store, test_key(2)), "");
    PROMISED(!holds(*bench.store, test_key(4)), "");
    PROMISED(reads_back(*bench.store, good), "");
}

void erase_forgets_and_ignores_the_unknown(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes a = make_slab(1), b = make_slab(2);
    put_wait(*bench.store, {put_of(a), put_of(b)});
    std::vector<BlockKey> keys = {test_key(1), test_key(55)};
    bench.store->erase(keys);
    PROMISED(!holds(*bench.store, test_key(1)), "");
    AlignedBytes into(a.size());
    PROMISED(get_one(*bench.store, test_key(1), into).code() == Code::miss, "");
    PROMISED(reads_back(*bench.store, b), "");
    PROMISED(put_one(*bench.store, a).ok(), "an erased block may come back");
    PROMISED(reads_back(*bench.store, a), "");
}

void lists_what_it_holds(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    if (!bench.store->info().caps.lists) {
        PROMISED(bench.store->list().code() == Code::unsupported, "");
        return;
    }
    AlignedBytes a = make_slab(1), b = make_slab(2, 1);
    put_wait(*bench.store, {put_of(a), put_of(b)});
    auto entries = bench.store->list();
    PROMISED(entries.ok(), "");
    PROMISED(entries->size() == 2u, entries->size());
    for (const TierEntry& entry : *entries) {
        PROMISED(entry.bytes == a.size(), entry.bytes);
        BlockKey parent = entry.key == test_key(2) ? test_key(1) : BlockKey{};
        PROMISED(entry.parent_key == parent, "");
    }
}

void counts_what_it_does(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    AlignedBytes slab = make_slab(1);
    PROMISED(put_one(*bench.store, slab).ok(), "");
    AlignedBytes into(slab.size());
    PROMISED(get_one(*bench.store, test_key(1), into).ok(), "");
    PROMISED(!get_one(*bench.store, test_key(2), into).ok(), "");
    PROMISED(settles(*bench.store), "");
    TierStats stats = bench.store->stats();
    PROMISED(stats.blocks == 1u, stats.blocks);
    PROMISED(stats.puts == 1u, stats.puts);
    PROMISED(stats.put_bytes == slab.size(), stats.put_bytes);
    PROMISED(stats.gets == 2u, stats.gets);
    PROMISED(stats.get_hits == 1u, stats.get_hits);
    PROMISED(stats.get_bytes == slab.size(), stats.get_bytes);
    PROMISED(!stats.degraded, stats.degraded_why);
    PROMISED(stats.used_bytes >= slab.size(), stats.used_bytes);
    PROMISED(stats.used_bytes <= stats.capacity_bytes, stats.used_bytes);
}

void flush_returns_when_nothing_waits(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
    std::vector<AlignedBytes> slabs;
    std::vector<Pending> pending(8);
    for (uint64_t i = 1; i <= 8; i++) slabs.push_back(make_slab(i));
    for (size_t i = 0; i < 8; i++) {
        PROMISED(bench.store->put({put_of(slabs[i])}, pending[i].done()).ok(), "");
    }
    PROMISED(bench.store->flush(kTestTimeoutNs).ok(), "");
    for (const AlignedBytes& slab : slabs) {
        PROMISED(holds(*bench.store, slab_header(slab.span()).key), "");
    }
    for (Pending& p : pending) p.wait();
}

void stays_inside_its_limit_and_keeps_serving(const MakeStore& make) {
    const uint64_t capacity = 8 << 20;
    StoreUnderTest bench = make(capacity, kQueueMax);
    for (uint64_t i = 1; i <= 1000; i += 10) {
        std::vector<AlignedBytes> slabs;
        std::vector<TierPut> puts;
        for (uint64_t j = i; j < i + 10; j++) slabs.push_back(make_slab(j));
        for (const auto& slab : slabs) puts.push_back(put_of(slab));
        for (const Status& status : put_wait(*bench.store, puts)) {
            PROMISED(status.ok(), i << ": " << status.error().message);
        }
        PROMISED(reads_back(*bench.store, slabs[i % 7]), i);
        PROMISED(bench.store->stats().used_bytes <= capacity, bench.store->stats().used_bytes);
    }
    TierStats stats = bench.store->stats();
    PROMISED(stats.evicted_blocks > 500u, stats.evicted_blocks);
    PROMISED(stats.blocks > 100u, stats.blocks);
}

void queue_is_bounded(const MakeStore& make) {
    StoreUnderTest bench = make(kCapacityBytes, 2);
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
            PROMISED(status.code() == Code::busy, "");
            refused++;
        }
        PROMISED(bench.store->stats().pending <= 4u, bench.store->stats().pending);
    }
    for (Pending& p : pending) PROMISED(p.wait()[0].ok(), "");
    PROMISED(bench.store->stats().blocks == slabs.size() - refused, bench.store->stats().blocks);
}

void four_threads_at_once(const MakeStore& make) {
    StoreUnderTest bench = make(16 << 20, 256);
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
    PROMISED(wrong.load() == 0u, wrong.load());
    PROMISED(settles(*bench.store), "");
    PROMISED(bench.store->stats().corrupt_blocks == 0u, bench.store->stats().corrupt_blocks);
}

void destruction_waits_for_work_in_flight(const MakeStore& make) {
    std::vector<AlignedBytes> slabs;
    for (uint64_t i = 1; i <= 32; i++) slabs.push_back(make_slab(i));
    std::vector<Pending> pending(slabs.size());
    {
        StoreUnderTest bench = make(kCapacityBytes, kQueueMax);
        for (size_t i = 0; i < slabs.size(); i++) {
            PROMISED(bench.store->put({put_of(slabs[i])}, pending[i].done()).ok(), "");
        }
    }
    for (Pending& p : pending) {
        PROMISED(p.ready(), "");
        PROMISED(p.wait()[0].ok(), "");
    }
}

constexpr ConformanceCheck kChecks[] = {
    {"SaysWhatItIs", &says_what_it_is},
    {"GivesBackWhatWasPut", &gives_back_what_was_put},
    {"UnknownKeyIsAMissAndDoesNotSpoilItsBatch",
     &unknown_key_is_a_miss_and_does_not_spoil_its_batch},
    {"BufferOfAnotherSizeIsRefused", &buffer_of_another_size_is_refused},
    {"PuttingTwiceIsOkAndKeepsOneBlock", &putting_twice_is_ok_and_keeps_one_block},
    {"OneKeyTwiceInOneBatchIsOneBlock", &one_key_twice_in_one_batch_is_one_block},
    {"BadSlabIsRefusedAloneInItsBatch", &bad_slab_is_refused_alone_in_its_batch},
    {"EraseForgetsAndIgnoresTheUnknown", &erase_forgets_and_ignores_the_unknown},
    {"ListsWhatItHolds", &lists_what_it_holds},
    {"CountsWhatItDoes", &counts_what_it_does},
    {"FlushReturnsWhenNothingWaits", &flush_returns_when_nothing_waits},
    {"StaysInsideItsLimitAndKeepsServing", &stays_inside_its_limit_and_keeps_serving},
    {"QueueIsBounded", &queue_is_bounded},
    {"FourThreadsAtOnce", &four_threads_at_once},
    {"DestructionWaitsForWorkInFlight", &destruction_waits_for_work_in_flight},
};

}  // namespace

std::span<const ConformanceCheck> conformance_checks() {
    return kChecks;
}

KvLayout conformance_layout() {
    KvLayout layout;
    layout.block_tokens = 16;
    layout.groups = {KvGroup{KvKind::full, 0, {0, 1}, 2, 64}};
    return layout;
}

}  // namespace quire::testing
