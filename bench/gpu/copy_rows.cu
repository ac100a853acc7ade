// Fragments between pinned memory and device memory, over one copy of all of it, in turn.
#include <chrono>
#include <cstdio>

#include "copy_data.h"
#include "kernels/cuda/copy/copy_runs.h"

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
    const CopyShape shape = engine.shape_of(fragments, direction);
    CopyTicket ticket = 0;
    const TwoTimes times = seconds_in_turn(
        [&] {
            check(cudaMemcpyAsync(up ? device : host, up ? host : device, kBytes, cudaMemcpyDefault,
                                  nullptr),
                  "a pinned copy");
        },
        [&] {
            ticket = submit(
                engine,
                {.fragments = fragments, .direction = direction, .after = {}, .shape = shape});
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

// Blocks of 16 tokens, 32 layers, 8 heads of 256 bytes, token-major on the host, head-major on the
// device, by as many multiprocessors as may be; with a checksum of each.
Row layout_row(std::byte* host, std::byte* device, CopyDirection direction) {
    const KvExtent extent = {.layers = 32, .tokens = 16, .heads = 8, .row_bytes = 256};
    const bool up = direction == CopyDirection::to_device;
    const KvLayout on_host = layer_token_head(extent), on_device = layer_head_token(extent);
    std::vector<StridedRun> runs;
    constexpr size_t kBlockBytes = size_t{2} << 20;
    for (size_t at = 0; at < kBytes; at += kBlockBytes)
        runs.push_back(up ? layout_run(host + at, on_host, device + at, on_device, extent)
                          : layout_run(device + at, on_device, host + at, on_host, extent));
    const int64_t units = number_runs(runs);
    const DeviceBuffer list(runs), sums(std::vector<uint64_t>(runs.size(), 0));
    const TwoTimes times = seconds_in_turn(
        [&] {
            check(cudaMemcpyAsync(up ? device : host, up ? host : device, kBytes, cudaMemcpyDefault,
                                  nullptr),
                  "a pinned copy");
        },
        [&] {
            check(copy_runs({.runs = list.as<StridedRun>(),
                             .n = static_cast<int32_t>(runs.size()),
                             .units = units,
                             .blocks = kBlocks,
                             .sums = sums.as<uint64_t>()},
                            nullptr),
                  "copy_runs");
        });
    return {.what = std::string(up ? "token-major to head-major" : "head-major to token-major") +
                    (up ? ", host to device" : ", device to host") + ", sums, 8 SMs",
            .unit = "GB/s",
            .measured = kBytes / times.second_s * 1e-9,
            .reference = kBytes / times.first_s * 1e-9};
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
    for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host})
        rows.push_back(layout_row(pool->data(), device.as(), direction));
    return rows;
}

}  // namespace quire::gpu_bench
