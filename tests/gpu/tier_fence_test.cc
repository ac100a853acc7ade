// A slot of the device's memory is used again only when nothing queued can still read or write it.
#include <chrono>

#include <cuda_runtime.h>

#include "copy_data.h"
#include "tier/device/device_store.h"
#include "tier/testing/sync_store.h"

namespace quire {
namespace {

using namespace testing;  // NOLINT: slabs and calls that wait
using gpu_testing::check_cuda;

// A stream on which nothing goes on until it is opened, or for three seconds.
class HeldStream {
 public:
    HeldStream() : open_(4096) {
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
        const auto hold = [](void* p) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
            while (*static_cast<volatile std::byte*>(p) == std::byte{0} &&
                   std::chrono::steady_clock::now() < end) {
            }
        };
        check_cuda(cudaLaunchHostFunc(stream_, hold, open_.data()), "a gate");
    }
    ~HeldStream() {
        open();
        cudaStreamSynchronize(stream_);
        cudaStreamDestroy(stream_);
    }
    HeldStream(const HeldStream&) = delete;
    HeldStream& operator=(const HeldStream&) = delete;
    void open() { *reinterpret_cast<volatile std::byte*>(open_.data()) = std::byte{1}; }
    cudaStream_t stream() const { return stream_; }

 private:
    gpu_testing::PinnedMemory open_;
    cudaStream_t stream_ = nullptr;
};

std::unique_ptr<DeviceStore> one_slot(size_t slab_bytes) {
    DeviceOptions options;
    options.layout.groups = {KvGroup{KvKind::full, 0, {0, 1}, 2, 64}};
    options.capacity_bytes = slab_bytes;
    options.bounce_bytes = 1 << 20;
    auto store = open_device_store(options);
    CHECK(store.ok(), store.error().message);
    return std::move(*store);
}

QUIRE_GPU_TEST(tier_slot_is_not_reused_before_its_event) {
    const AlignedBytes first = make_slab(1), second = make_slab(2);
    const auto store = one_slot(first.size());
    CHECK(put_one(*store, first).ok(), "put");
    const BlockKey key = test_key(1);
    std::byte* slab = nullptr;
    store->hold({&key, 1}, {&slab, 1});
    CHECK(slab != nullptr, "hold");
    CHECK(put_one(*store, second).code() == Code::full, "a block that is held gave way");
    gpu_testing::PinnedMemory seen(first.size());
    {
        HeldStream held;
        // What reads the slot is queued, and has not begun.
        check_cuda(
            cudaMemcpyAsync(seen.data(), slab, first.size(), cudaMemcpyDeviceToHost, held.stream()),
            "a reader");
        CHECK(store->let_go({&key, 1}, held.stream()).ok(), "let_go");
        store->erase({&key, 1});
        CHECK(!holds(*store, key), "erased");
        for (int i = 0; i < 20; ++i)
            CHECK(put_one(*store, second).code() == Code::full, "reused under a reader");
        held.open();
        check_cuda(cudaStreamSynchronize(held.stream()), "the reader");
    }
    CHECK(std::memcmp(seen.data(), first.span().data(), first.size()) == 0, "what it read");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!put_one(*store, second).ok())
        CHECK(std::chrono::steady_clock::now() < end, "the slot never became free");
    CHECK(reads_back(*store, second), "the next block");
}

QUIRE_GPU_TEST(tier_let_go_is_bounded) {
    const AlignedBytes slab = make_slab(1);
    const auto store = one_slot(slab.size());
    CHECK(put_one(*store, slab).ok(), "put");
    const BlockKey key = test_key(1);
    HeldStream held;
    std::byte* address = nullptr;
    int accepted = 0;
    for (int i = 0; i < 100; ++i) {
        store->hold({&key, 1}, {&address, 1});
        if (!store->let_go({&key, 1}, held.stream()).ok()) break;
        ++accepted;
    }
    CHECK(accepted > 8 && accepted < 100, accepted);
    held.open();
    check_cuda(cudaStreamSynchronize(held.stream()), "everything");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!store->let_go({&key, 1}, held.stream()).ok())
        CHECK(std::chrono::steady_clock::now() < end, "no event came back");
}

}  // namespace
}  // namespace quire
