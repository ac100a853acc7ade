// A checksum of a fragment that many threads compute at once and in any order: the sum, modulo
// 2^64, of its 8-byte words, each mixed with its place. A change of one word, two words exchanged
// and words left out all show; it is no defence against somebody who means to deceive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define QUIRE_BOTH_SIDES __host__ __device__ __forceinline__
#else
#define QUIRE_BOTH_SIDES inline
#endif

namespace quire::kernels::cuda {

// `place`: which word of the fragment this is, from 0.
QUIRE_BOTH_SIDES uint64_t checksum_word(uint64_t word, uint64_t place) {
    uint64_t x = word ^ (place + 1) * 0x9e3779b97f4a7c15;
    x *= 0xff51afd7ed558ccd;
    x ^= x >> 32;
    return x * 0xc4ceb9fe1a85ec53;
}

// REQUIRES: bytes a multiple of 8.
inline uint64_t checksum(const void* data, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 8; ++i) {
        uint64_t word;
        std::memcpy(&word, static_cast<const std::byte*>(data) + i * 8, 8);
        sum += checksum_word(word, i);
    }
    return sum;
}

}  // namespace quire::kernels::cuda
