// Sizes and durations as people write and read them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// "64GiB", "512MB", "1.5 GiB", "4096", "4096B" (any case); KiB/MiB/GiB/TiB are powers of 1024,
// kB/MB/GB/TB of 1000. invalid otherwise, and when 2^63 is passed.
Result<uint64_t> parse_size(std::string_view text);
// "250ms", "30s", "1h30m", "0" in ns, us, ms, s, m, h, d, as nanoseconds. invalid otherwise.
Result<int64_t> parse_duration(std::string_view text);

// "0 B", "12.0 KiB", "1.50 GiB": three digits, for reading.
std::string format_bytes(uint64_t bytes);
// "812 ns", "1.20 ms", "3.00 s", "2 min 5 s", "1 h 30 min".
std::string format_duration(int64_t ns);
// The shortest text that parses back to the same value: "2GiB", "1500MB", "10m".
std::string exact_size(uint64_t bytes);
std::string exact_duration(int64_t ns);

}  // namespace quire
