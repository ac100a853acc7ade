#include "kernels/cuda/copy/pinned_pool.h"

#include <cstring>

#include "check.h"
#include "device_memory.h"
#include "kernels/cuda/copy/copy.h"
#include "kernels/cuda/copy/engine.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using kernels::cuda::PinnedPool;
using kernels::cuda::PinnedPoolOptions;

constexpr uint64_t kMiB = uint64_t{1} << 20;

QUIRE_HOST_TEST(pinned_pool_refuses_bad_options) {
    for (const PinnedPoolOptions& options :
         {PinnedPoolOptions{}, PinnedPoolOptions{.bytes = 4096, .slice_bytes = 3 * kMiB},
          PinnedPoolOptions{.bytes = 4096, .slice_bytes = kMiB},
          PinnedPoolOptions{.bytes = ~uint64_t{0}}})
        CHECK(PinnedPool::create(options).code() == Code::invalid, "accepted");
    CHECK(PinnedPool::create({.bytes = 4096, .device = 1000}).code() == Code::unsupported,
          "a device that is not there");
}

// Kernels go across slices; copies of the engine are cut there.
QUIRE_GPU_TEST(pinned_pool_is_one_range_of_several_slices) {
    for (const bool huge_pages : {true, false}) {
        auto made = PinnedPool::create(
            {.bytes = 70 * kMiB - 5, .slice_bytes = 16 * kMiB, .huge_pages = huge_pages});
        CHECK(made.ok(), made.error().message);
        const PinnedPool& pool = **made;
        CHECK(pool.bytes() == 70 * kMiB && (huge_pages || !pool.has_huge_pages()), pool.bytes());
        CHECK(reinterpret_cast<uintptr_t>(pool.data()) % (16 * kMiB) == 0, "alignment");
        for (uint64_t i = 0; i < pool.bytes(); i += 8) std::memcpy(pool.data() + i, &i, 8);
        const DeviceArray<std::byte> device{std::vector<std::byte>(pool.bytes())};
        auto engine = kernels::cuda::CopyEngine::create(
            {.stage_bytes = 3 * kMiB, .boundary_bytes = pool.slice_bytes()});
        CHECK(engine.ok(), engine.error().message);
        const kernels::cuda::CopyFragment all[] = {{pool.data(), device.data(), pool.bytes()}};
        for (int way = 0; way < kernels::cuda::kCopyWays; ++way) {
            check_cuda(cudaMemset(device.data(), 0, pool.bytes()), "clear");
            check_cuda(cudaDeviceSynchronize(), "clear");
            const auto ticket = (*engine)->submit(
                {.fragments = all, .after = {}, .way = static_cast<kernels::cuda::CopyWay>(way)});
            CHECK(ticket.ok(), ticket.error().message);
            CHECK((*engine)->wait(*ticket, 5'000'000'000).ok(), "the copy");
            CHECK(std::memcmp(device.read().data(), pool.data(), pool.bytes()) == 0, way);
        }
    }
}

}  // namespace
}  // namespace quire
