// What each way takes on this machine, for fragments of a few sizes, each way round.
#include <algorithm>
#include <chrono>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/copy/engine_state.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr uint64_t kBytes = uint64_t{64} << 20;
constexpr uint64_t kEngineCopies = 1024;  // so many small ones show what one takes
constexpr int kRepeats = 2;               // the first time costs what no later one does

struct Buffers {
    void* host = nullptr;
    void* device = nullptr;
    ~Buffers() {
        cudaFreeHost(host);
        cudaFree(device);
    }
};

// Consecutive on the host, every other one on the device from the other end.
std::vector<CopyFragment> fragments_for(const Buffers& buffers, CopyDirection direction,
                                        uint64_t size, uint64_t n) {
    auto* host = static_cast<std::byte*>(buffers.host);
    auto* device = static_cast<std::byte*>(buffers.device);
    std::vector<CopyFragment> fragments;
    for (uint64_t i = 0; i < n; ++i) {
        std::byte* h = host + i * size;
        std::byte* d = device + (n - 1 - i) * size;
        const bool up = direction == CopyDirection::to_device;
        fragments.push_back({up ? h : d, up ? d : h, size});
    }
    return fragments;
}

// The least of some times.
Result<double> seconds_of(CopyEngine& engine, const CopyRequest& request, int repeats) {
    double best = 0;
    for (int i = 0; i < repeats; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        const auto ticket = engine.submit(request);
        QUIRE_TRY(ticket);
        QUIRE_TRY(engine.wait(*ticket, 1'000'000'000));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        best = i == 0 ? took.count() : std::min(best, took.count());
    }
    return best;
}

Status measure(CopyEngine& engine, const Buffers& buffers, CopyDirection direction, CopyWay way,
               CopyTable::Way& row) {
    const auto run = [&](uint64_t size, uint64_t n, int repeats) {
        const auto fragments = fragments_for(buffers, direction, size, n);
        return seconds_of(engine,
                          {.fragments = fragments, .direction = direction, .after = {}, .way = way},
                          repeats);
    };
    const auto first_s = run(kCopySizes.front(), 1, 3);
    QUIRE_TRY(first_s);
    row.first_s = *first_s;
    for (size_t i = 0; i < kCopySizes.size(); ++i) {
        const uint64_t size = kCopySizes[i];
        const uint64_t n =
            way == CopyWay::engines ? std::min(kEngineCopies, kBytes / size) : kBytes / size;
        // Twice as many take longer by what they take in the long run: not by the first list.
        const auto all = run(size, n, kRepeats), half = run(size, n / 2, kRepeats);
        QUIRE_TRY(all);
        QUIRE_TRY(half);
        const double beyond_half = std::max(*all - *half, *all / 4);
        row.bytes_per_s[i] = static_cast<double>((n - n / 2) * size) / beyond_half;
    }
    return {};
}

}  // namespace

Status CopyEngine::calibrate() {
    Buffers buffers;
    if (cudaHostAlloc(&buffers.host, kBytes, cudaHostAllocDefault) != cudaSuccess ||
        cudaMalloc(&buffers.device, kBytes) != cudaSuccess)
        return make_error(Code::full, "no memory to measure copies with");
    CopyTable table;
    for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host})
        for (const auto way : {CopyWay::engines, CopyWay::staged, CopyWay::warps})
            QUIRE_TRY(measure(*this, buffers, direction, way, table.of(direction, way)));
    state_->options.table = table;
    return {};
}

}  // namespace quire::kernels::cuda
