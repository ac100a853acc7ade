// Fragments between pinned memory and device memory, by eight multiprocessors, over one copy of all
// of it.
#include <algorithm>
#include <numeric>
#include <random>

#include "device_data.h"
#include "kernels/cuda/copy/copy.h"

namespace quire::gpu_bench {
namespace {

using kernels::cuda::CopyFragment;

constexpr size_t kBytes = size_t{1} << 30;
constexpr int32_t kBlocks = 8;

class PinnedBuffer {
 public:
    PinnedBuffer() {
        check(cudaHostAlloc(&data_, kBytes, cudaHostAllocDefault), "pinned memory");
        std::mt19937_64 rng(1);
        for (size_t i = 0; i < kBytes; i += 8) {
            const uint64_t x = rng();
            std::copy_n(reinterpret_cast<const std::byte*>(&x), 8, data() + i);
        }
    }
    ~PinnedBuffer() { cudaFreeHost(data_); }
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
    void* data_ = nullptr;
};

std::vector<CopyFragment> shuffled(const std::byte* from, std::byte* to, size_t fragment) {
    std::vector<size_t> order(kBytes / fragment);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
    std::vector<CopyFragment> fragments;
    for (size_t i = 0; i < order.size(); ++i)
        fragments.push_back({from + i * fragment, to + order[i] * fragment, fragment});
    return fragments;
}

}  // namespace

std::vector<Row> copy_rows(const Machine&) {
    const PinnedBuffer host;
    const DeviceBuffer device(kBytes);
    std::vector<Row> rows;
    for (const bool up : {true, false}) {
        const std::byte* from = up ? host.data() : device.as();
        std::byte* to = up ? device.as() : host.data();
        const double plain = seconds([&] {
            check(cudaMemcpyAsync(to, from, kBytes,
                                  up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, nullptr),
                  "a pinned copy");
        });
        for (const size_t kib : {4, 16, 64, 256, 1024}) {
            const DeviceBuffer fragments(shuffled(from, to, kib << 10));
            const auto n = static_cast<int32_t>(kBytes / (kib << 10));
            const double s = seconds([&] {
                check(kernels::cuda::copy_fragments(fragments.as<CopyFragment>(), n, kBlocks,
                                                    nullptr),
                      "copy_fragments");
            });
            rows.push_back({.what = "fragments of " + std::to_string(kib) + " KiB " +
                                    (up ? "host to device" : "device to host") + ", 8 SMs",
                            .unit = "GB/s",
                            .measured = kBytes / s * 1e-9,
                            .reference = kBytes / plain * 1e-9,
                            .bar = 0.95});
        }
    }
    return rows;
}

}  // namespace quire::gpu_bench
