// Many fragments, each way, in an order that has nothing to do with where they lie.
#include "kernels/cuda/copy/copy.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "check.h"
#include "device_memory.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using kernels::cuda::CopyFragment;

class PinnedMemory {
 public:
    explicit PinnedMemory(size_t bytes) : bytes_(bytes) {
        check_cuda(cudaHostAlloc(&data_, bytes, cudaHostAllocDefault), "pinned memory");
        std::memset(data_, 0, bytes);
    }
    ~PinnedMemory() { cudaFreeHost(data_); }
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(data_); }
    size_t bytes() const { return bytes_; }

 private:
    size_t bytes_;
    void* data_ = nullptr;
};

// Fragments of 16 bytes to 5 KiB that cover `bytes` on the one side, in random order on the other.
std::vector<CopyFragment> make_fragments(const std::byte* from, std::byte* to, size_t bytes,
                                         std::mt19937_64& rng) {
    std::vector<uint64_t> sizes;
    for (size_t at = 0; at < bytes; at += sizes.back())
        sizes.push_back(std::min<size_t>(16 * (rng() % 320 + 1), bytes - at));
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), rng);
    std::vector<uint64_t> places(sizes.size());
    uint64_t place = 0;
    for (const size_t i : order) {
        places[i] = place;
        place += sizes[i];
    }
    std::vector<CopyFragment> fragments;
    uint64_t at = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
        fragments.push_back({from + at, to + places[i], sizes[i]});
        at += sizes[i];
    }
    std::shuffle(fragments.begin(), fragments.end(), rng);
    return fragments;
}

QUIRE_GPU_TEST(copy_a_hundred_thousand_fragments_there_and_back) {
    constexpr size_t kBytes = size_t{256} << 20;
    std::mt19937_64 rng(20261130);
    const PinnedMemory host(kBytes), back(kBytes);
    for (size_t i = 0; i < kBytes; i += 8) {
        const uint64_t x = rng();
        std::memcpy(host.data() + i, &x, 8);
    }
    const DeviceArray<std::byte> device{std::vector<std::byte>(kBytes)};
    const auto there = make_fragments(host.data(), device.data(), kBytes, rng);
    CHECK(there.size() > 100'000, there.size());
    CHECK(kernels::cuda::check_fragments(there).ok(), "the test's own fragments");
    std::vector<CopyFragment> here;  // the same ones, the other way
    for (const CopyFragment& f : there)
        here.push_back({f.to, back.data() + (f.from - host.data()), f.bytes});
    for (const int32_t blocks : {1, 8, 132}) {
        std::memset(back.data(), 0, kBytes);
        check_cuda(cudaMemset(device.data(), 0, kBytes), "clear");
        for (const std::vector<CopyFragment>* list : {&there, &std::as_const(here)}) {
            const DeviceArray<CopyFragment> fragments(*list);
            check_cuda(kernels::cuda::copy_fragments(
                           fragments.data(), static_cast<int32_t>(list->size()), blocks, nullptr),
                       "copy_fragments");
            check_cuda(cudaDeviceSynchronize(), "the copy");
        }
        CHECK(std::memcmp(host.data(), back.data(), kBytes) == 0, blocks << " blocks");
    }
}

QUIRE_HOST_TEST(copy_of_nothing_needs_no_gpu) {
    CHECK(kernels::cuda::copy_fragments(nullptr, 0, 1, nullptr) == 0, "nothing");
}

}  // namespace
}  // namespace quire
