// What decides about copies, without a GPU: stages, shapes, and the choice of a way.
#include <cstring>
#include <random>

#include "check.h"
#include "kernels/cuda/copy/checksum.h"
#include "kernels/cuda/copy/choose.h"
#include "kernels/cuda/copy/stage.h"

namespace quire {
namespace {

using namespace kernels::cuda;  // NOLINT: a test of its headers

constexpr uint64_t kEndless = ~uint64_t{15};  // bytes of a stage

// A device and a host of this test's own memory, and stages carried out by memcpy.
struct Played {
    std::vector<std::byte> host, device, buffer;
    std::vector<CopyFragment> fragments;
};

Played play(std::mt19937_64& rng, CopyDirection direction, uint64_t stage_bytes) {
    Played p;
    p.host.resize(1 << 16);
    p.device.resize(1 << 17);
    p.buffer.resize(stage_bytes);
    const bool up = direction == CopyDirection::to_device;
    for (std::byte& b : up ? p.host : p.device) b = static_cast<std::byte>(rng());
    size_t host_at = 0, device_at = p.device.size();
    while (host_at < p.host.size()) {
        const uint64_t bytes = std::min<uint64_t>(rng() % 100 * 16, p.host.size() - host_at);
        device_at -= bytes + rng() % 3 * 16;
        if (device_at > p.device.size()) break;
        std::byte* h = p.host.data() + host_at;
        std::byte* d = p.device.data() + device_at;
        if (rng() % 8 != 0) p.fragments.push_back({up ? h : d, up ? d : h, bytes});
        host_at += bytes;
    }
    return p;
}

void check_stage(const Played& p, const std::vector<StageRun>& runs,
                 std::span<const CopyPiece> pieces, const StageLimits& limits) {
    uint64_t run_bytes = 0, piece_bytes = 0;
    CHECK(runs.size() <= limits.runs_max, runs.size());
    for (const StageRun& run : runs) {
        CHECK(run.at == run_bytes, "runs lie one behind the other");
        run_bytes += run.bytes;
        const auto first = reinterpret_cast<uintptr_t>(run.host);
        CHECK(first / limits.boundary_bytes == (first + run.bytes - 1) / limits.boundary_bytes,
              "a run crosses a boundary");
    }
    for (const CopyPiece& piece : pieces) {
        piece_bytes += piece.bytes;
        CHECK(piece.bytes > 0 && piece.bytes <= limits.piece_bytes, piece.bytes);
        CHECK(piece.at + piece.bytes <= p.fragments[piece.fragment].bytes, "behind its fragment");
    }
    CHECK(run_bytes == piece_bytes && run_bytes <= p.buffer.size(), run_bytes);
}

QUIRE_HOST_TEST(copy_stages_move_every_byte_once) {
    std::mt19937_64 rng(20261130);
    for (int round = 0; round < 200; ++round) {
        const auto direction = round % 2 ? CopyDirection::to_host : CopyDirection::to_device;
        const bool up = direction == CopyDirection::to_device;
        const uint64_t stage_bytes = 4096 + rng() % 64 * 16;
        const StageLimits limits = {.piece_bytes = static_cast<uint32_t>(16 + rng() % 64 * 16),
                                    .runs_max = static_cast<uint32_t>(1 + rng() % 6),
                                    .boundary_bytes = 8192};
        Played p = play(rng, direction, stage_bytes);
        StageCursor cursor(p.fragments, direction, limits);
        std::vector<StageRun> runs;
        std::vector<CopyPiece> places(1 + rng() % 40);
        uint64_t done_bytes = 0;
        while (!cursor.at_end()) {
            CHECK(cursor.done_bytes() == done_bytes, cursor.done_bytes());
            const size_t n = cursor.next(p.buffer.data(), stage_bytes, runs, places);
            const std::span<const CopyPiece> pieces(places.data(), n);
            CHECK(n > 0, "no end");
            for (const CopyPiece& piece : pieces) done_bytes += piece.bytes;
            check_stage(p, runs, pieces, limits);
            if (up)
                for (const auto& r : runs) std::memcpy(p.buffer.data() + r.at, r.host, r.bytes);
            for (const CopyPiece& piece : pieces) std::memcpy(piece.to, piece.from, piece.bytes);
            if (!up)
                for (const auto& r : runs) std::memcpy(r.host, p.buffer.data() + r.at, r.bytes);
        }
        for (const CopyFragment& f : p.fragments)
            CHECK(f.bytes == 0 || std::memcmp(f.from, f.to, f.bytes) == 0, round);
    }
}

QUIRE_HOST_TEST(copy_pieces_that_go_straight_need_no_buffer) {
    std::mt19937_64 rng(1);
    Played p = play(rng, CopyDirection::to_device, 4096);
    StageCursor cursor(p.fragments, CopyDirection::to_device,
                       {.piece_bytes = 256, .runs_max = 1, .boundary_bytes = 1 << 30});
    std::vector<StageRun> runs;
    std::vector<CopyPiece> places(8);
    while (!cursor.at_end()) {
        const size_t n = cursor.next(nullptr, kEndless, runs, places);
        for (const CopyPiece& piece : std::span(places).first(n))
            std::memcpy(piece.to, piece.from, piece.bytes);
    }
    for (const CopyFragment& f : p.fragments)
        CHECK(f.bytes == 0 || std::memcmp(f.from, f.to, f.bytes) == 0, "bytes");
}

QUIRE_HOST_TEST(copy_shape_counts_what_joins) {
    alignas(256) std::byte h[256], d[256];
    const std::vector<CopyFragment> fragments = {{h, d, 32},           {h + 32, d + 32, 16},
                                                 {h + 48, d + 64, 16}, {nullptr, nullptr, 0},
                                                 {h + 64, d + 80, 16}, {h + 96, d + 96, 16}};
    const CopyShape expected = {
        .bytes = 96, .fragments = 5, .host_runs = 2, .joined = 3, .pieces = 6};
    const StageLimits limits = {.piece_bytes = 16, .boundary_bytes = 1 << 20};
    CHECK(shape_of(fragments, CopyDirection::to_device, limits) == expected, "up");
    std::vector<CopyFragment> down;
    for (const CopyFragment& f : fragments)
        down.push_back({f.to, const_cast<std::byte*>(f.from), f.bytes});
    CHECK(shape_of(down, CopyDirection::to_host, limits) == expected, "down");
}

QUIRE_HOST_TEST(copy_shape_counts_the_pieces_of_an_endless_stage) {
    std::mt19937_64 rng(5);
    for (int round = 0; round < 100; ++round) {
        Played p = play(rng, CopyDirection::to_device, 4096);
        const StageLimits limits = {.piece_bytes = 16u << rng() % 8,
                                    .runs_max = 1,
                                    .boundary_bytes = uint64_t{256} << rng() % 6};
        StageCursor cursor(p.fragments, CopyDirection::to_device, limits);
        std::vector<StageRun> runs;
        std::vector<CopyPiece> places(8192);
        const size_t n = cursor.next(nullptr, kEndless, runs, places);
        // A piece that ends at a boundary and one that is full count once where they are the same.
        const uint64_t counted = shape_of(p.fragments, CopyDirection::to_device, limits).pieces;
        CHECK(cursor.at_end() && n <= counted, n << " of " << counted);
        if (limits.piece_bytes <= limits.boundary_bytes)
            CHECK(counted <= 2 * n, n << " of " << counted);
    }
}

QUIRE_HOST_TEST(copy_choice_follows_the_table) {
    CopyTable table = default_copy_table();
    const auto up = CopyDirection::to_device;
    const uint64_t total = uint64_t{1} << 30;
    const auto shape = [&](uint64_t fragment, uint64_t host_run, uint64_t joined) {
        return CopyShape{total, total / fragment, total / host_run, total / joined, 1};
    };
    const auto chosen = [&](const CopyShape& s) { return choose(table, up, s, 512); };
    CHECK(chosen(shape(total, total, total)) == CopyWay::engines, "one copy");
    CHECK(chosen(shape(4096, total, 4096)) == CopyWay::staged, "a slab to pages");
    CHECK(chosen(shape(4096, 4096, 4096)) == CopyWay::warps, "scattered on both sides");
    CHECK(chosen(shape(1 << 20, 1 << 20, 1 << 20)) != CopyWay::engines, "more than it may queue");
    const CopyShape small = {65536, 16, 1, 16, 16};
    CHECK(chosen(small) == CopyWay::warps, "too small for two hops");
    // Another machine: warps as fast as the engine read the host by little, and are too slow here.
    for (double& speed : table.of(up, CopyWay::warps).bytes_per_s) speed = 52.5e9;
    CHECK(chosen(shape(4096, total, 4096)) == CopyWay::staged, "alike: fewer multiprocessors");
    table.of(up, CopyWay::staged).bytes_per_s.fill(20e9);
    CHECK(chosen(shape(4096, total, 4096)) == CopyWay::warps, "staging is slow");
    CHECK(predicted_s(table, up, CopyWay::warps, {}) == 0, "nothing takes no time");
}

QUIRE_HOST_TEST(copy_checksum_sees_what_changes) {
    std::vector<uint64_t> words = {1, 2, 3, 4, 5, 6, 7, 7};
    const auto sum = [&] { return checksum(words.data(), words.size() * 8); };
    const uint64_t first = sum();
    for (size_t bit = 0; bit < 512; ++bit) {
        words[bit / 64] ^= uint64_t{1} << bit % 64;
        CHECK(sum() != first, "bit " << bit);
        words[bit / 64] ^= uint64_t{1} << bit % 64;
    }
    std::swap(words[0], words[5]);
    CHECK(sum() != first, "two words changed places");
    CHECK(checksum(nullptr, 0) == 0, "nothing");
}

}  // namespace
}  // namespace quire
