// Instructions on 32-bit words, with twins for the host, so that what is made of them is tested
// without a GPU.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace quire::kernels::cuda {

// Four of the eight bytes of low and high: nibble i of `selector` chooses byte i of the result.
// REQUIRES: no nibble has bit 3 set (it would repeat a sign).
QUIRE_HOST_DEVICE inline uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
#if defined(__CUDA_ARCH__)
    return __byte_perm(low, high, selector);
#else
    const uint64_t bytes = uint64_t{high} << 32 | low;
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i)
        out |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
    return out;
#endif
}

QUIRE_HOST_DEVICE inline uint32_t rotate_right(uint32_t x, uint32_t n) {
#if defined(__CUDA_ARCH__)
    return __funnelshift_r(x, x, n);
#else
    return n % 32 == 0 ? x : x >> (n % 32) | x << (32 - n % 32);
#endif
}

}  // namespace quire::kernels::cuda
