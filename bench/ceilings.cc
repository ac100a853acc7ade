#include "bench/ceilings.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include "base/clock.h"

namespace quire::bench {
namespace {

constexpr size_t kSweepBytes = size_t{512} << 20;  // twice a large last-level cache

double seconds_since(int64_t start_ns) {
    return static_cast<double>(system_clock().monotonic_ns() - start_ns) * 1e-9;
}

Result<Arena> touched_arena(size_t bytes) {
    return Arena::create({.bytes = bytes, .huge_pages = true, .prefault = true});
}

void fill_random(std::span<std::byte> bytes) {
    std::mt19937_64 draw(1);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const uint64_t word = draw();
        std::memcpy(bytes.data() + i, &word, sizeof word);
    }
}

}  // namespace

Result<CacheSweep> CacheSweep::create() {
    auto arena = touched_arena(kSweepBytes);
    if (!arena.ok()) return arena.error();
    return CacheSweep(std::move(arena).value());
}

void CacheSweep::run() {
    std::memset(arena_.data(), ++round_, arena_.size());
}

Result<std::unique_ptr<CopyCeiling>> CopyCeiling::create(size_t bytes, uint32_t threads) {
    auto from = touched_arena(bytes);
    if (!from.ok()) return from.error();
    auto to = touched_arena(bytes);
    if (!to.ok()) return to.error();
    fill_random(from->bytes());
    return std::unique_ptr<CopyCeiling>(
        new CopyCeiling(std::move(from).value(), std::move(to).value(), threads));
}

double CopyCeiling::seconds() {
    const int64_t start_ns = system_clock().monotonic_ns();
    const size_t share = (from_.size() + threads_ - 1) / threads_;
    for (size_t at = 0; at < from_.size(); at += share) {
        const size_t n = std::min(share, from_.size() - at);
        const auto copy = [this, at, n] { std::memcpy(to_.data() + at, from_.data() + at, n); };
        if (!pool_.submit(copy).ok()) copy();
    }
    pool_.drain();
    return seconds_since(start_ns);
}

}  // namespace quire::bench
