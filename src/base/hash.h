// The three digests Quire uses: SHA-256 for identity, XXH3 for speed, CRC32C for stored bytes.
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

struct Digest128 {
    uint64_t hi = 0;
    uint64_t lo = 0;
};

// The first 16 bytes of SHA-256, read big-endian (hi first).
Digest128 sha256_128(std::span<const std::byte> bytes);
Digest128 xxh3_128(std::span<const std::byte> bytes);
uint64_t xxh3_64(std::span<const std::byte> bytes, uint64_t seed = 0);
// CRC-32C (Castagnoli) of `bytes`, continuing from `crc` (0 to start). SSE4.2 where the CPU has it.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace quire
