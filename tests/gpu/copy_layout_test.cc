// Copies that change the layout: against one row at a time, on the host by the run's own numbers
// and on the device.
#include "copy_data.h"
#include "kernels/cuda/copy/checksum.h"
#include "kernels/cuda/copy/copy_runs.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using gpu_testing::PinnedMemory;
using namespace kernels::cuda;  // NOLINT: a test of its headers

using MakeLayout = KvLayout (*)(const KvExtent&);
constexpr MakeLayout kLayouts[] = {layer_token_head, layer_head_token, head_layer_token};

uint64_t bytes_of(const KvExtent& e) {
    return uint64_t{e.layers} * e.sides * e.tokens * e.heads * e.row_bytes;
}

// Row by row: what a layout change is.
void copy_rows(const std::byte* from, const KvLayout& a, std::byte* to, const KvLayout& b,
               const KvExtent& e) {
    for (int64_t layer = 0; layer < e.layers; ++layer)
        for (int64_t side = 0; side < e.sides; ++side)
            for (int64_t token = 0; token < e.tokens; ++token)
                for (int64_t head = 0; head < e.heads; ++head) {
                    const auto at = [&](const KvLayout& l) {
                        return l.layer * layer + l.side * side + l.token * token + l.head * head;
                    };
                    std::memcpy(to + at(b), from + at(a), e.row_bytes);
                }
}

void copy_on_host(const StridedRun& run) {
    for (int64_t a = 0; a < run.counts[0]; ++a)
        for (int64_t b = 0; b < run.counts[1]; ++b)
            for (int64_t c = 0; c < run.counts[2]; ++c)
                for (int64_t d = 0; d < run.counts[3]; ++d) {
                    const auto at = [&](const std::array<int64_t, 4>& s) {
                        return a * s[0] + b * s[1] + c * s[2] + d * s[3];
                    };
                    std::memcpy(run.to + at(run.to_strides), run.from + at(run.from_strides),
                                run.row_bytes);
                }
}

KvExtent random_extent(std::mt19937_64& rng) {
    const auto upto = [&](uint32_t n) { return static_cast<uint32_t>(1 + rng() % n); };
    return {.layers = upto(3),
            .sides = upto(2),
            .tokens = upto(20),
            .heads = upto(8),
            .row_bytes = 16 * upto(24)};
}

std::vector<std::byte> noise(size_t bytes, std::mt19937_64& rng) {
    std::vector<std::byte> data(bytes);
    for (std::byte& b : data) b = static_cast<std::byte>(rng());
    return data;
}

QUIRE_HOST_TEST(copy_layout_runs_are_layout_changes) {
    std::mt19937_64 rng(20261130);
    for (int round = 0; round < 300; ++round) {
        const KvExtent e = random_extent(rng);
        const KvLayout a = kLayouts[rng() % 3](e), b = kLayouts[rng() % 3](e);
        const std::vector<std::byte> from = noise(bytes_of(e), rng);
        std::vector<std::byte> expected(from.size()), got(from.size());
        copy_rows(from.data(), a, expected.data(), b, e);
        const StridedRun run = layout_run(from.data(), a, got.data(), b, e);
        CHECK(check_run(run).ok() && run.bytes() == from.size(), round);
        copy_on_host(run);
        CHECK(got == expected, round);
    }
}

QUIRE_HOST_TEST(copy_layout_runs_have_long_rows_where_they_can) {
    const KvExtent e = {.layers = 4, .sides = 2, .tokens = 16, .heads = 8, .row_bytes = 256};
    std::byte from[16], to[16];
    const auto run = [&](MakeLayout a, MakeLayout b) {
        return layout_run(from, a(e), to, b(e), e);
    };
    CHECK(run(layer_token_head, layer_token_head).row_bytes == bytes_of(e), "the same layout");
    const StridedRun turned = run(layer_token_head, layer_head_token);
    CHECK(turned.row_bytes == 256 && turned.counts[0] == 1 && turned.counts[1] == 8, "two axes");
    CHECK(run(layer_head_token, head_layer_token).row_bytes == 16 * 256, "tokens stay together");
}

QUIRE_HOST_TEST(copy_layout_refuses_bad_runs) {
    alignas(16) std::byte from[16], to[16];
    const StridedRun good = {.from = from, .to = to, .row_bytes = 16};
    CHECK(check_run(good).ok(), "good");
    for (auto change :
         {+[](StridedRun& r) { r.from = nullptr; }, +[](StridedRun& r) { r.to += 8; },
          +[](StridedRun& r) { r.row_bytes = 24; }, +[](StridedRun& r) { r.counts[2] = 0; },
          +[](StridedRun& r) { r.to_strides[1] = 8; },
          +[](StridedRun& r) { r.counts = {1u << 16, 1u << 16, 1, 1}; }}) {
        StridedRun run = good;
        change(run);
        CHECK(check_run(run).code() == Code::invalid, "accepted");
    }
}

// Blocks of all heads on the host to the pages of two ranks on the device, and merged again.
QUIRE_GPU_TEST(copy_layout_splits_between_ranks_and_merges) {
    std::mt19937_64 rng(20261201);
    for (int round = 0; round < 12; ++round) {
        KvExtent e = random_extent(rng);
        e.heads *= 2;
        KvExtent rank = e;
        rank.heads /= 2;
        const size_t blocks = 1 + rng() % 40, bytes = bytes_of(e);
        PinnedMemory host(blocks * bytes), back(blocks * bytes);
        host.fill_noise(static_cast<uint64_t>(round));
        const DeviceArray<std::byte> device{std::vector<std::byte>(blocks * bytes)};
        const KvLayout whole = kLayouts[rng() % 3](e), part = kLayouts[rng() % 3](rank);
        std::vector<StridedRun> split, merge;
        for (size_t i = 0; i < 2 * blocks; ++i) {
            const auto at = static_cast<int64_t>(i / 2 * bytes) +
                            head_offset(whole, static_cast<uint32_t>(i % 2) * rank.heads);
            std::byte* page = device.data() + i * (bytes / 2);
            split.push_back(layout_run(host.data() + at, whole, page, part, rank));
            merge.push_back(layout_run(page, part, back.data() + at, whole, rank));
        }
        std::vector<uint64_t> expected;
        for (const auto* runs : {&split, &merge}) {
            std::vector<StridedRun> numbered = *runs;
            const int64_t units = number_runs(numbered);
            const DeviceArray<StridedRun> list(numbered);
            const DeviceArray<uint64_t> sums(std::vector<uint64_t>(numbered.size(), 0));
            check_cuda(copy_runs({.runs = list.data(),
                                  .n = static_cast<int32_t>(numbered.size()),
                                  .units = units,
                                  .blocks = 1 + round,
                                  .sums = sums.data()},
                                 nullptr),
                       "copy_runs");
            check_cuda(cudaDeviceSynchronize(), "the copy");
            if (runs == &split) expected = sums.read();
        }
        CHECK(std::memcmp(host.data(), back.data(), host.bytes()) == 0, round);
        // A rank's pages are contiguous: a run's checksum is its page's.
        const std::vector<std::byte> pages = device.read();
        for (size_t i = 0; i < 2 * blocks; ++i)
            CHECK(checksum(pages.data() + i * (bytes / 2), bytes / 2) == expected[i], i);
    }
}

}  // namespace
}  // namespace quire
