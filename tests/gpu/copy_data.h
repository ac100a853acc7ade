// Memory and fragments for tests of copies.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "device_memory.h"
#include "kernels/cuda/copy/copy_plan.h"

namespace quire::gpu_testing {

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
    void fill_noise(uint64_t seed) {
        std::mt19937_64 rng(seed);
        for (size_t i = 0; i + 8 <= bytes_; i += 8) {
            const uint64_t x = rng();
            std::memcpy(data() + i, &x, 8);
        }
    }

 private:
    size_t bytes_;
    void* data_ = nullptr;
};

// Fragments of 16 bytes to 5 KiB that cover `bytes` of `ordered`, one behind the other, in random
// order on the other side; `to_ordered`: they go to the ordered side.
inline std::vector<kernels::cuda::CopyFragment> make_fragments(std::byte* ordered,
                                                               std::byte* scattered, size_t bytes,
                                                               bool to_ordered,
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
    std::vector<kernels::cuda::CopyFragment> fragments;
    uint64_t at = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
        std::byte* a = ordered + at;
        std::byte* b = scattered + places[i];
        fragments.push_back({to_ordered ? b : a, to_ordered ? a : b, sizes[i]});
        at += sizes[i];
    }
    return fragments;
}

// The same ones the other way, from where they went to where they came from in another memory.
inline std::vector<kernels::cuda::CopyFragment> reversed(
    const std::vector<kernels::cuda::CopyFragment>& there, const std::byte* origin,
    std::byte* back) {
    std::vector<kernels::cuda::CopyFragment> here;
    for (const auto& f : there) here.push_back({f.to, back + (f.from - origin), f.bytes});
    return here;
}

}  // namespace quire::gpu_testing
