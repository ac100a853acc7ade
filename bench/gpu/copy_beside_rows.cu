// Copies beside a model that computes: what they cost it, and whether they hide behind it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "copy_data.h"
#include "gemm.h"
#include "kernels/cuda/copy/copy.h"

namespace quire::gpu_bench {
namespace {

using namespace kernels::cuda;  // NOLINT: these files are about nothing else

constexpr size_t kBytes = size_t{1} << 29;
constexpr int kRepeats = 9;

struct Streams {
    cudaStream_t compute = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    Streams() {
        check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "a stream");
        check(cudaEventCreate(&begin), "an event");
        check(cudaEventCreate(&end), "an event");
    }
    ~Streams() {
        cudaStreamDestroy(compute);
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;
};

double median(std::array<double, kRepeats>& times) {
    std::ranges::sort(times);
    return times[kRepeats / 2];
}

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double products_s(const Gemm& gemm, const Streams& streams, int products) {
    check(cudaEventRecord(streams.begin, streams.compute), "record");
    for (int i = 0; i < products; ++i) gemm.queue(streams.compute);
    check(cudaEventRecord(streams.end, streams.compute), "record");
    check(cudaEventSynchronize(streams.end), "products");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, streams.begin, streams.end), "time");
    return ms * 1e-3;
}

struct Beside {
    double alone_s = 0;   // of some products
    double beside_s = 0;  // the same while copies are under way
    double copy_s = 0;    // of a copy while products are under way
    bool covered = true;  // what the measured thing ran beside outlasted it each time
};

// Products alone, products after copies have begun that last longer, each second time the other
// way round; then a copy after products have begun. Before each there are products that are not
// timed: how fast they are depends on what the device did before.
Beside measure(CopyEngine& engine, const Gemm& gemm, const CopyRequest& request) {
    const Streams streams;
    const double one_s = products_s(gemm, streams, 4) / 4;
    const int products = std::max(4, static_cast<int>(kBytes / 50e9 / one_s));
    std::array<double, kRepeats> alone, beside, copy;
    Beside result;
    const auto time_alone = [&] {
        products_s(gemm, streams, products / 2);
        return products_s(gemm, streams, products);
    };
    const auto time_beside = [&] {
        CopyTicket last = 0;
        for (int k = 0; k < 2; ++k) last = submit(engine, request);
        products_s(gemm, streams, products / 2);
        const double s = products_s(gemm, streams, products);
        result.covered = result.covered && !engine.has_ended(last);
        finish(engine, last);
        return s;
    };
    for (size_t i = 0; i < kRepeats; ++i) {
        if (i % 2 == 0) alone[i] = time_alone();
        beside[i] = time_beside();
        if (i % 2 != 0) alone[i] = time_alone();
        for (int k = 0; k < 2 * products; ++k) gemm.queue(streams.compute);
        check(cudaEventRecord(streams.end, streams.compute), "record");
        const double begin_s = now_s();
        finish(engine, submit(engine, request));
        copy[i] = now_s() - begin_s;
        result.covered = result.covered && cudaEventQuery(streams.end) == cudaErrorNotReady;
        check(cudaEventSynchronize(streams.end), "products");
    }
    result.alone_s = median(alone);
    result.beside_s = median(beside);
    result.copy_s = median(copy);
    return result;
}

double plain_s(std::byte* host, std::byte* device, CopyDirection direction) {
    const bool up = direction == CopyDirection::to_device;
    return seconds([&] {
        check(cudaMemcpyAsync(up ? device : host, up ? host : device, kBytes, cudaMemcpyDefault,
                              nullptr),
              "a pinned copy");
    });
}

void add_rows(std::vector<Row>& rows, CopyEngine& engine, const Gemm& gemm, std::byte* host,
              std::byte* device, CopyRequest request, size_t fragment_bytes) {
    const bool up = request.direction == CopyDirection::to_device;
    const auto fragments = scattered(host, device, request.direction,
                                     {.bytes = kBytes, .fragment_bytes = fragment_bytes});
    request.fragments = fragments;
    request.shape = engine.shape_of(fragments, request.direction);
    const Beside beside = measure(engine, gemm, request);
    const double plain = plain_s(host, device, request.direction);
    const std::string kib = std::to_string(fragment_bytes >> 10) + " KiB";
    const bool warps = request.way == CopyWay::warps;
    const std::string what = (up ? "scatter of " : "gather of ") + kib +
                             (warps ? ", 8 SMs alone" : "") + (beside.covered ? "" : " (in part)");
    rows.push_back({.what = "products of " + gemm.name() + " beside a " + what,
                    .unit = "ms",
                    .measured = beside.beside_s * 1e3,
                    .reference = beside.alone_s * 1e3,
                    .bar = warps ? 0 : 1.03,
                    .at_least = false});
    rows.push_back(
        {.what = what + " beside products of " + gemm.name() + ", over a pinned copy alone",
         .unit = "GB/s",
         .measured = kBytes / beside.copy_s * 1e-9,
         .reference = kBytes / plain * 1e-9,
         .bar = warps ? 0 : 0.95});
}

// What relaying of what one pinned copy brings takes of the device, while it is alone.
Row relay_row(const CopyEngine& engine, std::byte* host, std::byte* device) {
    const size_t bytes = kBytes / 2;
    const auto fragments = scattered(device, device + bytes, CopyDirection::to_device,
                                     {.bytes = bytes, .fragment_bytes = 4096});
    const auto list = cut_fragments(fragments, 4096);
    const DeviceBuffer pieces(list);
    const int32_t blocks = engine.options().relay_blocks;
    const double relay_s = seconds([&] {
        check(copy_pieces({.pieces = pieces.as<CopyPiece>(),
                           .n = static_cast<int32_t>(list.size()),
                           .blocks = blocks},
                          nullptr),
              "copy_pieces");
    });
    const double plain = plain_s(host, device, CopyDirection::to_device);
    return {.what = "multiprocessors that relaying takes, mean: " + std::to_string(blocks) +
                    " for moments, 4 KiB",
            .unit = "SMs",
            .measured = blocks * (relay_s / bytes) / (plain / kBytes),
            .bar = 8,
            .at_least = false};
}

// A prefix of 32768 tokens, 8 heads of K and V, 128 numbers of 16 bit, 32 layers; pages of 16
// tokens. Layers come from 1 GiB again and again and go to 4 GiB.
constexpr size_t kLayers = 32, kLayerBytes = size_t{128} << 20, kPageBytes = size_t{64} << 10;

struct Prefix {
    std::vector<CopyFragment> layers[kLayers];
    CopyShape shape;  // of each
    Prefix(const CopyEngine& engine, std::byte* host, std::byte* device) {
        for (size_t i = 0; i < kLayers; ++i)
            layers[i] = scattered(host + i * kLayerBytes % kBytes, device + i * kLayerBytes,
                                  CopyDirection::to_device,
                                  {.bytes = kLayerBytes, .fragment_bytes = kPageBytes});
        shape = engine.shape_of(layers[0], CopyDirection::to_device);
    }
};

struct LoadTimes {
    double load_s = 0, compute_s = 0, both_s = 0;
};

// The load alone, the layers' products alone, and each layer's products once its pages are there;
// products that are not timed come before those that are, for the reason above.
LoadTimes load_times(CopyEngine& engine, const Gemm& gemm, const Prefix& prefix, int products) {
    const Streams streams;
    const auto run = [&](bool load, bool compute) {
        if (compute) products_s(gemm, streams, products * 12);
        check(cudaDeviceSynchronize(), "what came before");
        const double begin_s = now_s();
        CopyTicket last = 0;
        for (const auto& layer : prefix.layers) {
            if (load) {
                last = submit(engine, {.fragments = layer, .after = {}, .shape = prefix.shape});
                check(!engine.queue_wait(streams.compute, last).ok(), "queue_wait");
            }
            for (int i = 0; compute && i < products; ++i) gemm.queue(streams.compute);
        }
        check(cudaDeviceSynchronize(), "a load");
        return now_s() - begin_s;
    };
    std::array<double, kRepeats> load, compute, both;
    for (size_t i = 0; i < kRepeats; ++i) {
        load[i] = run(true, false);
        if (i % 2 == 0) compute[i] = run(false, true);
        both[i] = run(true, true);
        if (i % 2 != 0) compute[i] = run(false, true);
    }
    return {median(load), median(compute), median(both)};
}

}  // namespace

std::vector<Row> copy_beside_rows(const Machine&) {
    const auto pool = noisy_pool(kBytes);
    const DeviceBuffer device(kLayers * kLayerBytes);
    const auto engine = calibrated_engine({});
    const Gemm large(8192), small(4096);
    std::vector<Row> rows = {relay_row(*engine, pool->data(), device.as())};
    for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host}) {
        for (const size_t kib : {4, 16, 64, 1024})
            add_rows(rows, *engine, large, pool->data(), device.as(),
                     {.direction = direction, .after = {}}, kib << 10);
        add_rows(rows, *engine, small, pool->data(), device.as(),
                 {.direction = direction, .after = {}}, 4096);
        add_rows(rows, *engine, large, pool->data(), device.as(),
                 {.direction = direction, .after = {}, .way = CopyWay::warps}, 4096);
    }
    const Prefix prefix(*engine, pool->data(), device.as());
    const Streams streams;
    products_s(small, streams, 8);
    const double one_s = products_s(small, streams, 32) / 32;
    for (const double share : {0.5, 1.0, 2.0}) {
        const int products = std::max(1, static_cast<int>(share * kLayerBytes / 55e9 / one_s));
        const LoadTimes t = load_times(*engine, small, prefix, products);
        char text[96];
        std::snprintf(text, sizeof text, "load of 32k tokens, 32 layers, %.2f of it in compute",
                      t.compute_s / t.load_s);
        rows.push_back({.what = text,
                        .unit = "ms",
                        .measured = t.both_s * 1e3,
                        .reference = std::max(t.load_s, t.compute_s) * 1e3,
                        .bar = 1.05,
                        .at_least = false});
    }
    return rows;
}

}  // namespace quire::gpu_bench
