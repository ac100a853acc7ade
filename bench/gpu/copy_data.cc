#include "copy_data.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace quire::gpu_bench {
namespace {

using namespace kernels::cuda;  // NOLINT: these files are about nothing else

template <class T>
T take(Result<T> result) {
    if (result.ok()) return std::move(*result);
    std::fprintf(stderr, "GPU bench: %s\n", result.error().message.c_str());
    std::exit(3);
}

std::vector<size_t> order(size_t n, bool shuffled, uint64_t seed) {
    std::vector<size_t> places(n);
    std::iota(places.begin(), places.end(), size_t{0});
    if (shuffled) std::shuffle(places.begin(), places.end(), std::mt19937_64(seed));
    return places;
}

double elapsed_s(void (*step)(void*), void* context) {
    check(cudaDeviceSynchronize(), "what came before");
    const auto begin = std::chrono::steady_clock::now();
    step(context);
    check(cudaDeviceSynchronize(), "a step");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::vector<CopyFragment> scattered(std::byte* host, std::byte* device, CopyDirection direction,
                                    const Scatter& scatter) {
    const size_t n = scatter.bytes / scatter.fragment_bytes;
    const auto host_places = order(n, scatter.host, 1), device_places = order(n, scatter.device, 2);
    std::vector<CopyFragment> fragments;
    for (size_t i = 0; i < n; ++i) {
        std::byte* h = host + host_places[i] * scatter.fragment_bytes;
        std::byte* d = device + device_places[i] * scatter.fragment_bytes;
        const bool up = direction == CopyDirection::to_device;
        fragments.push_back({up ? h : d, up ? d : h, scatter.fragment_bytes});
    }
    return fragments;
}

std::unique_ptr<PinnedPool> noisy_pool(size_t bytes) {
    auto pool = take(PinnedPool::create({.bytes = bytes}));
    uint64_t x = 1;
    for (size_t i = 0; i < bytes; i += 8) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        std::memcpy(pool->data() + i, &x, 8);
    }
    return pool;
}

std::unique_ptr<CopyEngine> calibrated_engine(const CopyEngineOptions& options) {
    auto engine = take(CopyEngine::create(options));
    if (const Status status = engine->calibrate(); !status.ok()) take(Result<int>(status.error()));
    return engine;
}

CopyTicket submit(CopyEngine& engine, const CopyRequest& request) {
    auto ticket = engine.submit(request);
    while (ticket.code() == Code::busy) {
        std::this_thread::yield();
        ticket = engine.submit(request);
    }
    return take(std::move(ticket));
}

void finish(CopyEngine& engine, CopyTicket ticket) {
    if (const Status status = engine.wait(ticket, 10'000'000'000); !status.ok())
        take(Result<int>(status.error()));
}

TwoTimes seconds_in_turn(void (*first)(void*), void* first_context, void (*second)(void*),
                         void* second_context, int repeats) {
    std::vector<double> firsts, seconds;
    for (int i = -1; i < repeats; ++i) {
        const double a = elapsed_s(first, first_context), b = elapsed_s(second, second_context);
        if (i < 0) continue;
        firsts.push_back(a);
        seconds.push_back(b);
    }
    std::ranges::sort(firsts);
    std::ranges::sort(seconds);
    return {firsts[firsts.size() / 2], seconds[seconds.size() / 2]};
}

}  // namespace quire::gpu_bench
