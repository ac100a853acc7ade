// Many pieces by some multiprocessors, each way, in an order that has nothing to do with where they
// lie; checksums on the way; what a stopped kernel says that it did.
#include "kernels/cuda/copy/copy.h"

#include "copy_data.h"
#include "kernels/cuda/copy/checksum.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using gpu_testing::make_fragments;
using gpu_testing::PinnedMemory;
using kernels::cuda::CopyFragment;
using kernels::cuda::CopyPiece;
using kernels::cuda::CopyProgress;

std::vector<uint64_t> copy_with_sums(const std::vector<CopyFragment>& fragments, int32_t blocks,
                                     uint32_t piece_bytes) {
    const auto list = kernels::cuda::cut_fragments(fragments, piece_bytes);
    const DeviceArray<CopyPiece> pieces(list);
    const DeviceArray<uint64_t> sums(std::vector<uint64_t>(fragments.size(), 0));
    check_cuda(kernels::cuda::copy_pieces({.pieces = pieces.data(),
                                           .n = static_cast<int32_t>(list.size()),
                                           .blocks = blocks,
                                           .sums = sums.data()},
                                          nullptr),
               "copy_pieces");
    check_cuda(cudaDeviceSynchronize(), "the copy");
    return sums.read();
}

QUIRE_GPU_TEST(copy_a_hundred_thousand_fragments_there_and_back) {
    constexpr size_t kBytes = size_t{256} << 20;
    std::mt19937_64 rng(20261130);
    PinnedMemory host(kBytes), back(kBytes);
    host.fill_noise(20261130);
    const DeviceArray<std::byte> device{std::vector<std::byte>(kBytes)};
    auto there = make_fragments(host.data(), device.data(), kBytes, false, rng);
    std::shuffle(there.begin(), there.end(), rng);
    CHECK(there.size() > 100'000, there.size());
    CHECK(kernels::cuda::check_fragments(there).ok(), "the test's own fragments");
    const auto here = gpu_testing::reversed(there, host.data(), back.data());
    std::vector<uint64_t> expected;
    for (const CopyFragment& f : there)
        expected.push_back(kernels::cuda::checksum(f.from, f.bytes));
    for (const int32_t blocks : {1, 8, 132}) {
        std::memset(back.data(), 0, kBytes);
        check_cuda(cudaMemset(device.data(), 0, kBytes), "clear");
        const uint32_t piece_bytes = blocks == 8 ? 1040 : 16 << 10;
        CHECK(copy_with_sums(there, blocks, piece_bytes) == expected, blocks << " blocks, there");
        CHECK(copy_with_sums(here, blocks, piece_bytes) == expected, blocks << " blocks, back");
        CHECK(std::memcmp(host.data(), back.data(), kBytes) == 0, blocks << " blocks");
    }
}

QUIRE_GPU_TEST(copy_stops_between_pieces_and_counts_what_it_did) {
    constexpr size_t kPieces = 4096, kPieceBytes = 16 << 10;
    PinnedMemory host(kPieces * kPieceBytes), words(4096);
    PinnedMemory lines(kernels::cuda::kStopLines * sizeof(kernels::cuda::StopLine));
    host.fill_noise(7);
    const DeviceArray<std::byte> device{std::vector<std::byte>(host.bytes())};
    const DeviceArray<CopyProgress> progress{std::vector<CopyProgress>(1)};
    std::vector<CopyPiece> list;
    for (size_t i = 0; i < kPieces; ++i)
        list.push_back({.from = host.data() + i * kPieceBytes,
                        .to = device.data() + i * kPieceBytes,
                        .bytes = kPieceBytes});
    const DeviceArray<CopyPiece> pieces(list);
    auto* stop = reinterpret_cast<kernels::cuda::StopLine*>(lines.data());
    auto* done_bytes = reinterpret_cast<uint64_t*>(words.data());
    const auto copied_pieces = [&] {
        const std::vector<std::byte> now = device.read();
        size_t n = 0;
        for (size_t i = 0; i < kPieces; ++i) {
            const size_t at = i * kPieceBytes;
            const bool copied = std::memcmp(now.data() + at, host.data() + at, kPieceBytes) == 0;
            const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
            CHECK(copied || std::all_of(now.begin() + at, now.begin() + at + kPieceBytes, is_zero),
                  "piece " << i << " is torn");
            n += copied;
        }
        return n;
    };
    for (const bool stopped : {true, false}) {
        check_cuda(cudaMemset(progress.data(), 0, sizeof(CopyProgress)), "clear");
        check_cuda(cudaMemset(device.data(), 0, host.bytes()), "clear");
        check_cuda(cudaDeviceSynchronize(), "clear");
        const auto set = [&](uint32_t value) {
            for (int i = 0; i < kernels::cuda::kStopLines; ++i)
                *const_cast<volatile uint32_t*>(&stop[i].stop) = value;
        };
        set(stopped);
        const kernels::cuda::CopyLaunch launch = {.pieces = pieces.data(),
                                                  .n = kPieces,
                                                  .blocks = 4,
                                                  .stop = stop,
                                                  .progress = progress.data(),
                                                  .done_bytes = done_bytes};
        check_cuda(kernels::cuda::copy_pieces(launch, nullptr), "copy_pieces");
        if (!stopped) set(1);  // somewhere in its midst
        check_cuda(cudaDeviceSynchronize(), "the copy");
        CHECK(*done_bytes % kPieceBytes == 0, *done_bytes);
        CHECK(copied_pieces() == *done_bytes / kPieceBytes, *done_bytes);
        if (stopped) CHECK(*done_bytes == 0, "it began though it was stopped");
    }
}

QUIRE_HOST_TEST(copy_of_nothing_needs_no_gpu) {
    CHECK(kernels::cuda::copy_pieces({}, nullptr) == 0, "nothing");
}

}  // namespace
}  // namespace quire
