// Packing the low bits of eight bytes side by side, and back, in a 64-bit word. Always inlined:
// files of several instruction sets use them. Byte 0 ends in the lowest bits.
#pragma once

#include <cstdint>

namespace quire::codec {

// Eight codes of 4 bits in 32. REQUIRES: every byte of x < 16.
[[gnu::always_inline]] constexpr uint32_t pack_nibbles(uint64_t x) {
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return static_cast<uint32_t>(x | x >> 16);
}
[[gnu::always_inline]] constexpr uint64_t unpack_nibbles(uint32_t packed) {
    uint64_t x = packed;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
}

// Eight codes of 3 bits in 24. REQUIRES: every byte of x < 8.
[[gnu::always_inline]] constexpr uint32_t pack_threes(uint64_t x) {
    x = (x | x >> 5) & 0x003f003f003f003fu;
    x = (x | x >> 10) & 0x00000fff00000fffu;
    return static_cast<uint32_t>((x | x >> 20) & 0xffffffu);
}
[[gnu::always_inline]] constexpr uint64_t unpack_threes(uint32_t packed) {
    uint64_t x = packed & 0xffffffu;
    x = (x | x << 20) & 0x00000fff00000fffu;
    x = (x | x << 10) & 0x003f003f003f003fu;
    return (x | x << 5) & 0x0707070707070707u;
}

}  // namespace quire::codec
