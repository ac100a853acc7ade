// The device tier: a prefix from pinned memory of the host into slots of the device, alone and
// beside a model that computes layer by layer.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "copy_data.h"
#include "format/slab.h"
#include "gemm.h"
#include "tier/device/device_store.h"

namespace quire::gpu_bench {
namespace {

constexpr uint32_t kLayers = 32;
constexpr size_t kBlocks = 500;  // of 16 tokens, 2 MiB: less than a slice of pinned memory
constexpr int kRepeats = 5;
constexpr uint32_t kThreads = 8;  // that verify
constexpr int64_t kTimeoutNs = 10'000'000'000;

KvLayout prefix_layout() {
    KvLayout layout;
    KvGroup group{KvKind::full, 0, {}, 8, 128};
    for (uint16_t i = 0; i < kLayers; ++i) group.layers.push_back(i);
    layout.groups = {group};
    return layout;
}

// Sealed slabs, one behind the other, over what noise there is.
std::vector<TierPut> make_slabs(const KvLayout& layout, std::byte* at) {
    std::vector<TierPut> puts;
    const size_t bytes = layout.slab_bytes(0);
    for (uint64_t i = 1; i <= kBlocks; ++i, at += bytes) {
        SlabHeader header;
        header.key = {{i, i}};
        header.payload_bytes = static_cast<uint32_t>(layout.payload_bytes(0));
        header.layer_count = kLayers;
        header.layer_bytes = static_cast<uint32_t>(layout.layer_bytes(0));
        header.token_count = layout.block_tokens;
        std::memcpy(at, &header, sizeof header);
        seal_slab({at, bytes});
        puts.push_back({header.key, {at, bytes}});
    }
    return puts;
}

void ok(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "GPU bench: %s\n", status.error().message.c_str());
    std::exit(3);
}

// Set by a batch's completion.
class Ended {
 public:
    TierDone done() {
        return [this](std::span<const Status> results) {
            for (const Status& status : results) ok(status);
            std::lock_guard lock(mutex_);
            ended_ = true;
            changed_.notify_one();
        };
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ended_; });
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
};

struct Bench {
    KvLayout layout = prefix_layout();
    size_t bytes = kBlocks * layout.slab_bytes(0);
    std::unique_ptr<kernels::cuda::PinnedPool> pool = noisy_pool(bytes);
    std::vector<TierPut> puts = make_slabs(layout, pool->data());
    std::vector<BlockKey> keys;
    std::unique_ptr<DeviceStore> store;
    cudaStream_t compute = nullptr;

    Bench() {
        for (const TierPut& put : puts) keys.push_back(put.key);
        auto made = open_device_store(
            {.layout = layout, .capacity_bytes = bytes, .threads = kThreads, .pinned = pool.get()});
        if (!made.ok()) ok(made.error());
        store = std::move(*made);
        check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "a stream");
    }
    ~Bench() { cudaStreamDestroy(compute); }

    // Seconds of a load, of products, or of each layer's products behind its layer.
    double run(const Gemm* gemm, int products, bool load) {
        for (int i = 0; gemm != nullptr && i < 12 * products; ++i) gemm->queue(compute);
        check(cudaDeviceSynchronize(), "what came before");
        const auto begin = std::chrono::steady_clock::now();
        Ended ended;
        std::shared_ptr<DeviceLoad> loading;
        if (load) {
            auto begun = store->load(puts, ended.done());
            if (!begun.ok()) ok(begun.error());
            loading = *begun;
        }
        for (uint32_t layer = 0; gemm != nullptr && layer < kLayers; ++layer) {
            if (load) ok(loading->wait_layer(layer, compute, kTimeoutNs));
            for (int i = 0; i < products; ++i) gemm->queue(compute);
        }
        if (load) ended.wait();
        check(cudaStreamSynchronize(compute), "products");
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (load) empty();
        return took.count();
    }

    void empty() {
        ok(store->let_go(keys, compute));
        store->erase(keys);
        while (store->stats().used_bytes > 0) std::this_thread::yield();
    }

    double move(bool up) {
        const auto begin = std::chrono::steady_clock::now();
        Ended ended;
        if (up) {
            ok(store->put(puts, ended.done()));
        } else {
            std::vector<TierGet> gets;
            for (size_t i = 0; i < kBlocks; ++i)
                gets.push_back(
                    {keys[i], {pool->data() + i * layout.slab_bytes(0), layout.slab_bytes(0)}});
            ok(store->get(std::move(gets), ended.done(), {}));
        }
        ended.wait();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        return took.count();
    }
};

double median(std::array<double, kRepeats>& times) {
    std::ranges::sort(times);
    return times[kRepeats / 2];
}

}  // namespace

std::vector<Row> tier_rows(const Machine&) {
    Bench bench;
    const DeviceBuffer device(bench.bytes);
    std::vector<Row> rows;
    std::array<double, kRepeats> put, get, load, up, down;
    const auto plain = [&](bool to_device) {
        void *to = to_device ? device.as() : bench.pool->data(),
             *from = to_device ? bench.pool->data() : device.as();
        const auto begin = std::chrono::steady_clock::now();
        check(cudaMemcpyAsync(to, from, bench.bytes, cudaMemcpyDefault, bench.compute), "a copy");
        check(cudaStreamSynchronize(bench.compute), "a copy");
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    check(cudaMemcpy(device.as(), bench.pool->data(), bench.bytes, cudaMemcpyDefault), "a copy");
    for (size_t i = 0; i < kRepeats; ++i) {
        up[i] = plain(true);
        load[i] = bench.run(nullptr, 0, true);
        put[i] = bench.move(true);
        down[i] = plain(false);
        get[i] = bench.move(false);
        bench.store->erase(bench.keys);
    }
    const double gb = static_cast<double>(bench.bytes) * 1e-9, up_s = median(up);
    const auto add = [&](const char* what, double s, double plain_s) {
        rows.push_back({what, "GB/s", gb / s, gb / plain_s, 0});
    };
    const double load_s = median(load);
    add("device tier: load of 500 slabs of 2 MiB by layers, verified", load_s, up_s);
    add("device tier: put of 500 slabs of 2 MiB, pinned", median(put), up_s);
    add("device tier: get of 500 slabs of 2 MiB, pinned, verified", median(get), median(down));
    const Gemm gemm(4096);
    const double one_s = bench.run(&gemm, 4, false) / (4 * kLayers);
    for (const double share : {0.5, 1.0, 2.0}) {
        const int products = std::max(1, static_cast<int>(share * load_s / kLayers / one_s + 0.5));
        std::array<double, kRepeats> compute, both;
        for (size_t i = 0; i < kRepeats; ++i) {
            compute[i] = bench.run(&gemm, products, false);
            both[i] = bench.run(&gemm, products, true);
        }
        const double compute_s = median(compute);
        char what[96];
        std::snprintf(what, sizeof what, "device tier: load by layers, %.2f of it in compute",
                      compute_s / load_s);
        rows.push_back(
            {what, "ms", median(both) * 1e3, std::max(load_s, compute_s) * 1e3, 1.05, false});
    }
    return rows;
}

}  // namespace quire::gpu_bench
