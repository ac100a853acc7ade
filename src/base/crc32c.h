// The implementations behind crc32c() of base/hash.h, named so that tests can hold one against
// another. Pure functions, any thread. `crc` is the finished CRC of what came before, 0 to start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire::crc32c_detail {

// Eight table look-ups for eight bytes; runs everywhere.
uint32_t portable(std::span<const std::byte> bytes, uint32_t crc);

// The CPU's CRC32 instruction on three streams at once, joined by shift tables.
bool hardware_supported();
// REQUIRES: hardware_supported().
uint32_t hardware(std::span<const std::byte> bytes, uint32_t crc);

}  // namespace quire::crc32c_detail
