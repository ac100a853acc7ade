// Slabs in a GPU's memory behind the tier interface: what every tier promises, and loads by layers.
// The host's pool over pinned memory keeps the same promises.
#include <atomic>
#include <chrono>
#include <thread>

#include <cuda_runtime.h>

#include "check.h"
#include "device_memory.h"
#include "tier/device/device_store.h"
#include "tier/host/host_store.h"
#include "tier/testing/conformance.h"
#include "tier/testing/sync_store.h"

namespace quire {
namespace {

using namespace testing;  // NOLINT: slabs and calls that wait
using gpu_testing::check_cuda;
using kernels::cuda::PinnedPool;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint32_t kLayers = 8, kLayerBytes = 128 << 10;

DeviceOptions small_options(const KvLayout& layout, uint64_t capacity_bytes) {
    DeviceOptions options;
    options.layout = layout;
    options.capacity_bytes = capacity_bytes;
    options.bounce_bytes = 1 << 20;
    options.copies.relay_blocks = 2;
    options.copies.stage_bytes = 1 << 20;
    options.copies.stages = 2;
    options.copies.pieces_max = 4096;
    return options;
}

std::unique_ptr<DeviceStore> open(const DeviceOptions& options) {
    auto store = open_device_store(options);
    CHECK(store.ok(), store.error().message);
    return std::move(*store);
}

std::unique_ptr<PinnedPool> pinned(uint64_t bytes) {
    auto pool = PinnedPool::create({.bytes = bytes});
    CHECK(pool.ok(), pool.error().message);
    return std::move(*pool);
}

StoreUnderTest make_device(uint64_t capacity_bytes, uint32_t queue_max) {
    DeviceOptions options = small_options(conformance_layout(), capacity_bytes);
    options.queue_max = queue_max;
    StoreUnderTest made;
    made.store = open(options);
    return made;
}

StoreUnderTest make_pinned_host(uint64_t capacity_bytes, uint32_t queue_max) {
    std::shared_ptr<PinnedPool> pool = pinned(capacity_bytes);
    HostOptions options;
    options.layout = conformance_layout();
    options.memory = {pool->data(), pool->bytes()};
    options.queue_max = queue_max;
    auto store = open_host_store(options);
    CHECK(store.ok(), store.error().message);
    StoreUnderTest made;
    made.stands_on = std::move(pool);
    made.store = std::move(*store);
    return made;
}

// A test for each promise of each store.
bool register_promises() {
    struct Row {
        const char* name;
        StoreUnderTest (*make)(uint64_t, uint32_t);
    };
    for (const Row& row : {Row{"tier_device_", make_device}, Row{"tier_pinned_", make_pinned_host}})
        for (const ConformanceCheck& check : conformance_checks())
            gpu_testing::tests().push_back({row.name + std::string(check.name), [row, &check] {
                                                try {
                                                    check.run(row.make);
                                                } catch (const NotAsPromised& broken) {
                                                    throw gpu_testing::Failed{broken.what};
                                                }
                                            }});
    return true;
}
const bool registered = register_promises();

KvLayout layered_layout() {
    KvLayout layout;
    layout.groups = {KvGroup{KvKind::full, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 16, 128}};
    return layout;
}

// Slabs 1 to n, a chain, in pinned memory.
struct Prefix {
    explicit Prefix(uint64_t n)
        : bytes(layered_layout().slab_bytes(0)), pool(pinned(n * bytes)), n(n) {
        for (uint64_t i = 0; i < n; ++i) {
            const AlignedBytes slab = make_slab(i + 1, i, kLayerBytes, kLayers);
            CHECK(slab.size() == bytes, slab.size());
            std::memcpy(pool->data() + i * bytes, slab.span().data(), bytes);
            keys.push_back(test_key(i + 1));
        }
    }
    std::span<std::byte> slab(uint64_t i) const { return {pool->data() + i * bytes, bytes}; }
    std::vector<TierPut> puts() const {
        std::vector<TierPut> all;
        for (uint64_t i = 0; i < n; ++i) all.push_back({keys[i], slab(i)});
        return all;
    }

    size_t bytes;
    std::unique_ptr<PinnedPool> pool;
    uint64_t n;
    std::vector<BlockKey> keys;
};

QUIRE_GPU_TEST(tier_load_gives_each_layer_to_a_stream) {
    const Prefix prefix(20);
    DeviceOptions options = small_options(layered_layout(), 24 * prefix.bytes);
    options.pinned = prefix.pool.get();
    const auto store = open(options);
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    for (int round = 0; round < 2; ++round) {  // the second time they are there already
        Pending pending;
        const auto load = store->load(prefix.puts(), pending.done());
        CHECK(load.ok(), load.error().message);
        CHECK((*load)->pieces().size() == kLayers, "large layers come one by one");
        std::vector<std::byte> layer(kLayerBytes);
        for (uint32_t l = 0; l < kLayers; ++l) {
            const Status there = (*load)->wait_layer(l, stream, 10 * kSecond);
            CHECK(there.ok(), there.error().message);
            for (uint64_t i = 0; i < prefix.n; i += 7) {
                const size_t at = kSlabHeaderBytes + size_t{l} * kLayerBytes;
                check_cuda(cudaMemcpyAsync(layer.data(), (*load)->slabs()[i] + at, kLayerBytes,
                                           cudaMemcpyDeviceToHost, stream),
                           "a layer");
                check_cuda(cudaStreamSynchronize(stream), "a layer");
                CHECK(std::memcmp(layer.data(), prefix.slab(i).data() + at, kLayerBytes) == 0, l);
            }
        }
        CHECK((*load)->wait_layer(kLayers, stream, 0).code() == Code::invalid, "no such layer");
        for (const Status& status : pending.wait()) CHECK(status.ok(), status.error().message);
        CHECK(store->let_go(prefix.keys, stream).ok(), "let_go");
    }
    CHECK(store->stats().puts == prefix.n && store->stats().blocks == prefix.n, "each once");
    check_cuda(cudaStreamDestroy(stream), "a stream");
}

QUIRE_GPU_TEST(tier_load_refuses_what_is_damaged) {
    const Prefix prefix(18);
    DeviceOptions options = small_options(layered_layout(), 20 * prefix.bytes);
    options.pinned = prefix.pool.get();
    const auto store = open(options);
    prefix.slab(17)[prefix.bytes - kLayerBytes] ^= std::byte{1};
    Pending pending;
    const auto load = store->load(prefix.puts(), pending.done());
    CHECK(load.ok(), load.error().message);
    const std::vector<Status> results = pending.wait();
    CHECK((*load)->wait_layer(kLayers - 1, nullptr, kSecond).code() == Code::corrupt, "last");
    for (uint64_t i = 0; i < prefix.n; ++i) {
        CHECK(results[i].ok() == (i != 17), i);
        CHECK(holds(*store, prefix.keys[i]) == (i != 17), i);
    }
    CHECK(store->let_go(prefix.keys, nullptr).ok(), "let_go");
    AlignedBytes unpinned = make_slab(50, 0, kLayerBytes, kLayers);
    CHECK(store->load({put_of(unpinned)}, [](auto) {}).code() == Code::invalid, "not pinned");
}

// Layers of 8 KiB are moved together, and a block that gets no place does not spoil the others.
QUIRE_GPU_TEST(tier_load_of_more_than_fits) {
    constexpr uint64_t kBlocks = 5, kPlaces = 3;
    const size_t bytes = conformance_layout().slab_bytes(0);
    const auto pool = pinned(kBlocks * bytes);
    DeviceOptions options = small_options(conformance_layout(), kPlaces * bytes);
    options.pinned = pool.get();
    const auto store = open(options);
    std::vector<TierPut> puts;
    for (uint64_t i = 0; i < kBlocks; ++i) {
        const AlignedBytes slab = make_slab(i + 1);
        std::memcpy(pool->data() + i * bytes, slab.span().data(), bytes);
        puts.push_back({test_key(i + 1), {pool->data() + i * bytes, bytes}});
    }
    Pending pending;
    const auto load = store->load(puts, pending.done());
    CHECK(load.ok(), load.error().message);
    CHECK((*load)->pieces().size() == 1, "small layers come together");
    const std::vector<Status> results = pending.wait();
    CHECK((*load)->wait_layer(0, nullptr, kSecond).code() == Code::corrupt, "not all are there");
    std::vector<BlockKey> held;
    for (uint64_t i = 0; i < kBlocks; ++i) {
        CHECK(results[i].ok() == (i < kPlaces), i);
        CHECK(((*load)->slabs()[i] != nullptr) == (i < kPlaces), i);
        CHECK(holds(*store, puts[i].key) == (i < kPlaces), i);
        if (i < kPlaces) held.push_back(puts[i].key);
    }
    CHECK(store->let_go(held, nullptr).ok(), "let_go");
}

// Two blocks that fight for one slot: who reads it keeps it.
QUIRE_GPU_TEST(tier_slot_is_not_reused_under_a_get) {
    const AlignedBytes slabs[] = {make_slab(1), make_slab(2)};
    const auto store = open(small_options(conformance_layout(), slabs[0].size()));
    std::atomic<bool> stop{false};
    std::atomic<int> put{0}, read{0}, wrong{0};
    const auto writes = [&] {
        for (uint64_t i = 0; !stop; ++i) {
            const Status status = put_one(*store, slabs[i % 2]);
            put += status.ok();
            wrong += !status.ok() && status.code() != Code::full;
        }
    };
    const auto reads = [&] {
        AlignedBytes into(slabs[0].size());
        for (uint64_t i = 0; !stop; ++i) {
            const Status status = get_one(*store, test_key(i % 2 + 1), into);
            read += status.ok();
            wrong += status.ok() ? !same_bytes(slabs[i % 2], into) : status.code() != Code::miss;
        }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) threads.emplace_back(writes);
    for (int t = 0; t < 2; ++t) threads.emplace_back(reads);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while ((put < 300 || read < 300) && wrong == 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    stop = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0, wrong);
    CHECK(put > 0 && read > 0, "no test at all: " << put << " and " << read);
}

// Slabs come and go straight where they are pinned, and land layer by layer where they are not.
QUIRE_GPU_TEST(tier_get_lands_layer_by_layer) {
    const Prefix prefix(20);
    DeviceOptions options = small_options(layered_layout(), 24 * prefix.bytes);
    options.pinned = prefix.pool.get();
    const auto store = open(options);
    for (const Status& status : put_wait(*store, prefix.puts())) CHECK(status.ok(), "put");
    std::vector<AlignedBytes> into;
    std::vector<TierGet> gets;
    for (uint64_t i = 0; i < prefix.n; ++i) into.emplace_back(prefix.bytes);
    for (uint64_t i = 0; i < prefix.n; ++i) gets.push_back({prefix.keys[i], into[i].span()});
    std::atomic<uint32_t> landed{0};
    std::atomic<bool> grows{true};
    TierLanding landing{.layers = kLayers, .layer_bytes = kLayerBytes};
    landing.landed = [&](uint32_t n) { grows = grows && n > landed.exchange(n); };
    Pending pending;
    CHECK(store->get(gets, pending.done(), landing).ok(), "get");
    for (const Status& status : pending.wait()) CHECK(status.ok(), status.error().message);
    CHECK(landed == kLayers && grows, landed);
    for (uint64_t i = 0; i < prefix.n; ++i)
        CHECK(std::memcmp(into[i].span().data(), prefix.slab(i).data(), prefix.bytes) == 0, i);
    std::vector<std::byte> before(prefix.slab(3).begin(), prefix.slab(3).end());
    std::ranges::fill(prefix.slab(3), std::byte{0});
    CHECK(get_wait(*store, {{prefix.keys[3], prefix.slab(3)}})[0].ok(), "straight");
    CHECK(std::ranges::equal(before, prefix.slab(3)), "straight");
}

}  // namespace
}  // namespace quire
