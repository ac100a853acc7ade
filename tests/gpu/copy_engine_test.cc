// The copy engine: every way moves the same bytes, bounds are bounds, and the fences hold.
#include <chrono>
#include <memory>

#include "copy_data.h"
#include "kernels/cuda/copy/checksum.h"
#include "kernels/cuda/copy/engine.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using gpu_testing::make_fragments;
using gpu_testing::PinnedMemory;
using namespace kernels::cuda;  // NOLINT: a test of one header

constexpr int64_t kSecond = 1'000'000'000;

std::unique_ptr<CopyEngine> make_engine(const CopyEngineOptions& options = {}) {
    auto engine = CopyEngine::create(options);
    CHECK(engine.ok(), engine.error().message);
    return std::move(*engine);
}

CopyTicket submit(CopyEngine& engine, const CopyRequest& request) {
    const auto ticket = engine.submit(request);
    CHECK(ticket.ok(), ticket.error().message);
    return *ticket;
}

CopyStatus ended(CopyEngine& engine, CopyTicket ticket) {
    const Status status = engine.wait(ticket, 10 * kSecond);
    CHECK(status.ok(), status.error().message);
    return engine.status(ticket);
}

// Events that a test holds back until it opens them, or for three seconds: then a call that should
// not wait has waited.
class Gate {
 public:
    Gate() : open_(4096) {
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
        check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "an event");
        const auto hold = [](void* p) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
            while (*static_cast<volatile std::byte*>(p) == std::byte{0} &&
                   std::chrono::steady_clock::now() < end) {
            }
        };
        check_cuda(cudaLaunchHostFunc(stream_, hold, open_.data()), "a gate");
        check_cuda(cudaEventRecord(event_, stream_), "record");
    }
    ~Gate() {
        open();
        cudaStreamSynchronize(stream_);
        cudaEventDestroy(event_);
        cudaStreamDestroy(stream_);
    }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    void open() { *reinterpret_cast<volatile std::byte*>(open_.data()) = std::byte{1}; }
    cudaEvent_t event() const { return event_; }

 private:
    PinnedMemory open_;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t event_ = nullptr;
};

// Pages in order on the host, scattered on the device, each way.
struct Pages {
    explicit Pages(size_t bytes, uint64_t seed = 1)
        : host(bytes), back(bytes), device(std::vector<std::byte>(bytes)) {
        host.fill_noise(seed);
        std::mt19937_64 rng(seed);
        up = make_fragments(host.data(), device.data(), bytes, false, rng);
        down = gpu_testing::reversed(up, host.data(), back.data());
    }
    CopyRequest request(CopyDirection direction) const {
        const bool to_device = direction == CopyDirection::to_device;
        return {.fragments = to_device ? up : down, .direction = direction, .after = {}};
    }

    PinnedMemory host, back;
    DeviceArray<std::byte> device;
    std::vector<CopyFragment> up, down;
};

QUIRE_GPU_TEST(copy_engine_every_way_moves_the_same_bytes) {
    const Pages pages(size_t{32} << 20);
    const auto engine = make_engine({.stage_bytes = 1 << 20, .boundary_bytes = 8 << 20});
    for (const CopyWay way : {CopyWay::staged, CopyWay::warps, CopyWay::engines}) {
        std::memset(pages.back.data(), 0, pages.back.bytes());
        check_cuda(cudaMemset(pages.device.data(), 0, pages.back.bytes()), "clear");
        check_cuda(cudaDeviceSynchronize(), "clear");
        for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host}) {
            CopyRequest request = pages.request(direction);
            request.way = way;
            const CopyStatus status = ended(*engine, submit(*engine, request));
            CHECK(status.end == CopyEnd::whole && status.way == way, static_cast<int>(way));
            CHECK(status.done_bytes == pages.host.bytes(), status.done_bytes);
        }
        CHECK(std::memcmp(pages.host.data(), pages.back.data(), pages.host.bytes()) == 0,
              static_cast<int>(way));
    }
}

QUIRE_GPU_TEST(copy_engine_sums_fragments_on_the_way) {
    const Pages pages(size_t{24} << 20, 2);
    const auto engine = make_engine({.stage_bytes = 1 << 20});
    std::vector<uint64_t> expected;
    for (const CopyFragment& f : pages.up) expected.push_back(checksum(f.from, f.bytes));
    for (const CopyWay way : {CopyWay::staged, CopyWay::warps}) {
        for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host}) {
            const DeviceArray<uint64_t> sums(std::vector<uint64_t>(pages.up.size(), 0));
            CopyRequest request = pages.request(direction);
            request.way = way;
            request.sums = sums.data();
            ended(*engine, submit(*engine, request));
            CHECK(sums.read() == expected, static_cast<int>(way));
        }
    }
    CopyRequest request = pages.request(CopyDirection::to_host);
    request.way = CopyWay::engines;
    const DeviceArray<uint64_t> sums(std::vector<uint64_t>(pages.up.size(), 0));
    request.sums = sums.data();
    CHECK(engine->submit(request).code() == Code::invalid, "sums by a copy engine");
}

// Nothing is read or written before the event that a copy waits for.
QUIRE_GPU_TEST(copy_engine_waits_for_the_events_before_it) {
    const Pages pages(size_t{8} << 20, 3);
    const auto engine = make_engine();
    const std::vector<std::byte> zeros(pages.host.bytes());
    for (const CopyWay way : {CopyWay::staged, CopyWay::warps, CopyWay::engines}) {
        check_cuda(cudaMemset(pages.device.data(), 0, zeros.size()), "clear");
        check_cuda(cudaDeviceSynchronize(), "clear");
        CopyRequest request = pages.request(CopyDirection::to_device);
        request.way = way;
        if (way == CopyWay::engines) request.fragments = request.fragments.first(300);
        Gate gate;
        const cudaEvent_t after[] = {gate.event()};
        request.after = after;
        const CopyTicket ticket = submit(*engine, request);
        CHECK(engine->wait(ticket, kSecond / 20).code() == Code::timeout, "it did not wait");
        CHECK(!engine->has_ended(ticket), "its pages were given away early");
        // The source is written while the copy waits: it must carry these bytes.
        pages.host.data()[0] ^= std::byte{1};
        gate.open();
        CHECK(ended(*engine, ticket).end == CopyEnd::whole, static_cast<int>(way));
        const std::vector<std::byte> now = pages.device.read();
        const size_t first = static_cast<size_t>(pages.up[0].to - pages.device.data());
        CHECK(now[first] == pages.host.data()[0], "it read too early");
    }
}

// What is cancelled before it begins writes nothing, and its pages are not free before its event.
QUIRE_GPU_TEST(copy_engine_cancelled_before_it_begins_writes_nothing) {
    const Pages pages(size_t{8} << 20, 4);
    const auto engine = make_engine();
    for (const CopyWay way : {CopyWay::staged, CopyWay::warps}) {
        CopyRequest request = pages.request(CopyDirection::to_device);
        request.way = way;
        check_cuda(cudaMemset(pages.device.data(), 0x5a, pages.host.bytes()), "fill");
        check_cuda(cudaDeviceSynchronize(), "fill");
        Gate gate;
        const cudaEvent_t after[] = {gate.event()};
        request.after = after;
        const CopyTicket ticket = submit(*engine, request);
        engine->cancel(ticket);
        CHECK(!engine->has_ended(ticket), "a cancelled copy's pages were given away early");
        gate.open();
        const CopyStatus status = ended(*engine, ticket);
        CHECK(status.end == CopyEnd::cancelled && status.done_bytes == 0, status.done_bytes);
        const std::vector<std::byte> now = pages.device.read();
        CHECK(std::ranges::all_of(now, [](std::byte b) { return b == std::byte{0x5a}; }),
              "it wrote though it was cancelled");
    }
}

// Cancelled in its midst: once it has ended, pages can be used again and keep what is put there.
QUIRE_GPU_TEST(copy_engine_cancelled_in_its_midst_writes_nothing_later) {
    const Pages pages(size_t{256} << 20, 5);
    const auto engine = make_engine();
    cudaStream_t next;
    check_cuda(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking), "a stream");
    int cut_short = 0;
    for (int round = 0; round < 6; ++round) {
        CopyRequest request = pages.request(CopyDirection::to_device);
        request.way = round % 2 == 0 ? CopyWay::staged : CopyWay::warps;
        const CopyTicket ticket = submit(*engine, request);
        CHECK(engine->wait(ticket, kSecond / 1000).code() == Code::timeout, "256 MiB in 1 ms");
        engine->cancel(ticket);
        CHECK(engine->queue_wait(next, ticket).ok(), "queue_wait");
        check_cuda(cudaMemsetAsync(pages.device.data(), round + 1, pages.host.bytes(), next),
                   "the next use of the pages");
        check_cuda(cudaStreamSynchronize(next), "the next use of the pages");
        const CopyStatus status = ended(*engine, ticket);
        cut_short += status.end == CopyEnd::cancelled;
        CHECK(status.done_bytes <= pages.host.bytes(), status.done_bytes);
        check_cuda(cudaDeviceSynchronize(), "everything");
        const std::vector<std::byte> now = pages.device.read();
        const auto mark = static_cast<std::byte>(round + 1);
        CHECK(std::ranges::all_of(now, [&](std::byte b) { return b == mark; }),
              "a cancelled copy wrote into pages that were used again, round " << round);
    }
    cudaStreamDestroy(next);
    CHECK(cut_short >= 4, "only " << cut_short << " of 6 copies were cut short: no test at all");
}

// The same to the host: a page of it that is used again is not written by a copy engine's
// leftovers.
QUIRE_GPU_TEST(copy_engine_cancelled_to_the_host_writes_nothing_later) {
    const Pages pages(size_t{256} << 20, 7);
    const auto engine = make_engine();
    int cut_short = 0;
    for (int round = 0; round < 4; ++round) {
        CopyRequest request = pages.request(CopyDirection::to_host);
        request.way = round % 2 == 0 ? CopyWay::staged : CopyWay::warps;
        const CopyTicket ticket = submit(*engine, request);
        engine->cancel(ticket);
        engine->cancel(ticket);
        const CopyStatus status = ended(*engine, ticket);
        cut_short += status.end == CopyEnd::cancelled;
        std::memset(pages.back.data(), round + 1, pages.back.bytes());
        check_cuda(cudaDeviceSynchronize(), "everything");
        const auto mark = static_cast<std::byte>(round + 1);
        const std::span<const std::byte> now(pages.back.data(), pages.back.bytes());
        CHECK(std::ranges::all_of(now, [&](std::byte b) { return b == mark; }), round);
    }
    CHECK(cut_short >= 2, "only " << cut_short << " of 4 copies were cut short: no test at all");
}

QUIRE_GPU_TEST(copy_engine_copies_both_ways_at_once) {
    const Pages one(size_t{32} << 20, 8), other(size_t{32} << 20, 9);
    const auto engine = make_engine({.stage_bytes = 2 << 20});
    ended(*engine, submit(*engine, other.request(CopyDirection::to_device)));
    for (const CopyWay way : {CopyWay::staged, CopyWay::warps}) {
        std::memset(other.back.data(), 0, other.back.bytes());
        check_cuda(cudaMemset(one.device.data(), 0, one.host.bytes()), "clear");
        check_cuda(cudaDeviceSynchronize(), "clear");
        CopyRequest up = one.request(CopyDirection::to_device);
        CopyRequest down = other.request(CopyDirection::to_host);
        up.way = down.way = way;
        const CopyTicket tickets[] = {submit(*engine, up), submit(*engine, down),
                                      submit(*engine, up)};
        for (const CopyTicket ticket : tickets)
            CHECK(ended(*engine, ticket).end == CopyEnd::whole, ticket);
        CHECK(std::memcmp(other.back.data(), other.host.data(), other.host.bytes()) == 0, "down");
        ended(*engine, submit(*engine, one.request(CopyDirection::to_host)));
        CHECK(std::memcmp(one.back.data(), one.host.data(), one.host.bytes()) == 0, "up");
    }
}

QUIRE_GPU_TEST(copy_engine_bounds_what_is_under_way) {
    const Pages pages(size_t{4} << 20, 6);
    const auto engine = make_engine({.pieces_max = 4096, .copies_max = 3});
    CopyRequest request = pages.request(CopyDirection::to_device);
    request.way = CopyWay::warps;
    {
        Gate gate;
        const cudaEvent_t after[] = {gate.event()};
        request.after = after;
        submit(*engine, request);
        submit(*engine, request);
        CHECK(engine->submit(request).code() == Code::busy, "no descriptors left");
        request.way = CopyWay::engines;
        request.fragments = std::span(pages.up).first(4);
        submit(*engine, request);
        CHECK(engine->submit(request).code() == Code::busy, "no tickets left");
    }
    check_cuda(cudaDeviceSynchronize(), "everything");
    request.after = {};
    // Many times round the ring of descriptors, and through tickets that are forgotten.
    for (int i = 0; i < 50; ++i) {
        request = pages.request(i % 3 == 0 ? CopyDirection::to_host : CopyDirection::to_device);
        request.way = i % 2 == 0 ? CopyWay::warps : CopyWay::staged;
        const CopyTicket ticket = submit(*engine, request);
        CHECK(ended(*engine, ticket).end == CopyEnd::whole, i);
        if (ticket > 3) CHECK(engine->has_ended(ticket - 3), "a forgotten one");
    }
    CHECK(std::memcmp(pages.host.data(), pages.back.data(), pages.host.bytes()) == 0, "bytes");
    std::vector<CopyFragment> many(5000, CopyFragment{pages.host.data(), pages.device.data(), 16});
    request.fragments = many;
    request.way = CopyWay::warps;
    CHECK(engine->submit(request).code() == Code::invalid, "more than ever fits");
    request.way = CopyWay::engines;
    many.resize(20000, many.front());
    request.fragments = many;
    CHECK(engine->submit(request).code() == Code::invalid, "more copies than an engine may have");
    CHECK(ended(*engine, submit(*engine, {})).end == CopyEnd::whole, "nothing");
}

QUIRE_GPU_TEST(copy_engine_calibrates) {
    const auto engine = make_engine();
    const auto status = engine->calibrate();
    CHECK(status.ok(), status.error().message);
    for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host})
        for (int way = 0; way < kCopyWays; ++way) {
            const auto& row = engine->options().table.of(direction, static_cast<CopyWay>(way));
            CHECK(row.first_s > 0 && row.first_s < 1e-2, row.first_s);
            for (const double speed : row.bytes_per_s) CHECK(speed > 1e8 && speed < 1e12, speed);
        }
}

QUIRE_HOST_TEST(copy_engine_refuses_bad_options) {
    for (const CopyEngineOptions& options :
         {CopyEngineOptions{.blocks = 0}, CopyEngineOptions{.relay_blocks = 0},
          CopyEngineOptions{.stage_bytes = 1000}, CopyEngineOptions{.stages = 1},
          CopyEngineOptions{.pieces_max = 3}, CopyEngineOptions{.copies_max = 0},
          CopyEngineOptions{.boundary_bytes = 3 << 20}})
        CHECK(CopyEngine::create(options).code() == Code::invalid, "accepted");
}

}  // namespace
}  // namespace quire
