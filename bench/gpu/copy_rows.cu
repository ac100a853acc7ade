// Fragments between pinned memory and device memory, over one copy of all of it, in turn.
#include <chrono>
#include <cstdio>

#include "copy_data.h"

namespace quire::gpu_bench {
namespace {

using namespace kernels::cuda;  // NOLINT: these files are about nothing else

constexpr size_t kBytes = size_t{1} << 30;
constexpr int32_t kBlocks = 8;  // multiprocessors of any kernel

const char* name_of(CopyWay way) {
    return way == CopyWay::engines  ? "no SM"
           : way == CopyWay::staged ? "8 SMs for moments"
                                    : "8 SMs";
}

Row row_of(CopyEngine& engine, std::byte* host, std::byte* device, CopyDirection direction,
           const Scatter& scatter) {
    const bool up = direction == CopyDirection::to_device;
    const auto fragments = scattered(host, device, direction, scatter);
    CopyTicket ticket = 0;
    const TwoTimes times = seconds_in_turn(
        [&] {
            check(cudaMemcpyAsync(up ? device : host, up ? host : device, kBytes, cudaMemcpyDefault,
                                  nullptr),
                  "a pinned copy");
        },
        [&] {
            ticket = submit(engine, {.fragments = fragments, .direction = direction, .after = {}});
        });
    const CopyStatus status = engine.status(ticket);
    if (status.done_bytes != kBytes) check(1, "a copy that is not whole");
    const std::string kib = std::to_string(scatter.fragment_bytes >> 10);
    return {.what = std::string(up ? "scatter" : "gather") + " of " + kib + " KiB " +
                    (up ? "host to device" : "device to host") +
                    (scatter.host ? ", scattered on both sides" : "") + ", " + name_of(status.way),
            .unit = "GB/s",
            .measured = kBytes / times.second_s * 1e-9,
            .reference = kBytes / times.first_s * 1e-9,
            .bar = 0.95};
}

}  // namespace

std::vector<Row> copy_rows(const Machine&) {
    const auto pool = noisy_pool(kBytes);
    const DeviceBuffer device(kBytes);
    const auto begin = std::chrono::steady_clock::now();
    const auto engine = calibrated_engine({.relay_blocks = kBlocks});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::vector<Row> rows = {{.what = "start and calibration of a copy engine",
                              .unit = "ms",
                              .measured = took.count() * 1e3}};
    for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host})
        for (const bool host : {false, true})
            for (const size_t kib : {4, 16, 64, 256, 1024})
                rows.push_back(
                    row_of(*engine, pool->data(), device.as(), direction,
                           {.bytes = kBytes, .fragment_bytes = kib << 10, .host = host}));
    return rows;
}

}  // namespace quire::gpu_bench
