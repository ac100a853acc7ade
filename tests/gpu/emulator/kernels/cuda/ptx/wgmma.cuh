// Stands in for src/kernels/cuda/ptx/wgmma.cuh, as far as kernels that run here need it. Products
// are there when they are queued; a wait is where a warp's lanes meet, so that what they read is
// not given back before all have.
#pragma once

#include <cstdlib>

#include "kernels/cuda/ptx/bulk.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kTileBytes = 64 * 128;
inline constexpr uint64_t kNextK = 32 >> 4;
inline constexpr uint64_t kNextRows = 2048 >> 4;

inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kGroups>
void wgmma_wait() {
    emulator::exchange(0);
}
template <int kNumbers>
void pin(float (&)[kNumbers]) {}

inline uint64_t tiles_by_columns(uint32_t address) {
    return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | uint64_t{kTileBytes >> 4} << 16 |
           (address >> 4 & 0x3fff);
}
inline uint64_t narrow_tile_by_rows(uint32_t address) {
    return uint64_t{2} << 62 | uint64_t{512 >> 4} << 32 | uint64_t{1} << 16 |
           (address >> 4 & 0x3fff);
}

template <bool kBf16_, bool kColumns_>
struct WgmmaKind {
    static constexpr bool kBf16 = kBf16_, kColumns = kColumns_;
};

// Number `along` of row `row` of a tile with rows of `row_bytes`: addresses are swizzled by their
// own bits, from where the shared memory begins.
inline uint32_t address_in_tile(uint64_t tile, uint32_t row, uint32_t along) {
    const bool narrow = tile >> 62 == 2;
    const auto start = static_cast<uint32_t>(tile & 0x3fff) << 4;
    const auto eights = static_cast<uint32_t>(tile >> 32 & 0x3fff) << 4;
    const uint32_t row_bytes = narrow ? 64 : 128;
    const uint32_t at = start + row / 8 * eights + row % 8 * row_bytes + 2 * along;
    return at ^ (at >> 7 & (narrow ? 3 : 7)) << 4;
}
template <class Kind>
float tile_number(uint32_t address) {
    uint16_t number;
    std::memcpy(&number, at_shared_address(address), sizeof number);
    return Kind::kBf16 ? bf16_of(number, 0) : half_of(number, 0);
}
template <class Kind>
float second_operand(uint64_t b, uint32_t k, uint32_t column) {
    if (!Kind::kColumns) return tile_number<Kind>(address_in_tile(b, column, k));
    const uint64_t next = (b >> 16 & 0x3fff) * (column / 64);  // of the tiles that follow
    return tile_number<Kind>(address_in_tile(b + next, k, column % 64));
}

// first(row, k): of the first operand; row 0: row g of the warp's, 1: row g + 8.
template <class Kind, int kNumbers, class First>
void multiply_tiles(float (&c)[kNumbers], First first, uint64_t b) {
    float rows[2][16];
    for (uint32_t r = 0; r < 2; ++r)
        for (uint32_t k = 0; k < 16; ++k) rows[r][k] = first(r, k);
    for (uint32_t i = 0; i < kNumbers; ++i) {
        const uint32_t column = i / 4 * 8 + emulator::lane() % 4 * 2 + i % 2;
        for (uint32_t k = 0; k < 16; ++k)
            c[i] += rows[i / 2 % 2][k] * second_operand<Kind>(b, k, column);
    }
}
template <class Kind, int kNumbers>
void wgmma_tiles(float (&c)[kNumbers], uint64_t a, uint64_t b, bool adds) {
    if (!adds) std::fill(c, c + kNumbers, 0.0f);
    const uint32_t first = emulator::thread.x / 32 % 4 * 16 + emulator::lane() / 4;
    multiply_tiles<Kind>(
        c,
        [&](uint32_t r, uint32_t k) {
            return tile_number<Kind>(address_in_tile(a, first + 8 * r, k));
        },
        b);
}
template <class Kind, int kNumbers>
void wgmma_registers(float (&c)[kNumbers], const uint32_t (&a)[4], uint64_t b, bool adds) {
    if (!adds) std::fill(c, c + kNumbers, 0.0f);
    uint64_t words[4][32];
    for (int i = 0; i < 4; ++i) std::memcpy(words[i], emulator::exchange(a[i]), sizeof words[i]);
    const uint32_t g = emulator::lane() / 4;
    multiply_tiles<Kind>(
        c,
        [&](uint32_t r, uint32_t k) {
            const uint64_t pair = words[r + k / 8 * 2][4 * g + k % 8 / 2];
            return Kind::kBf16 ? bf16_of(pair, k % 2) : half_of(pair, k % 2);
        },
        b);
}

template <class Kind>
void wgmma_64(float (&c)[32], uint64_t a, uint64_t b, bool adds) {
    wgmma_tiles<Kind>(c, a, b, adds);
}
template <class Kind>
void wgmma_32(float (&c)[16], uint64_t a, uint64_t b, bool adds) {
    wgmma_tiles<Kind>(c, a, b, adds);
}
template <class Kind>
void wgmma_64(float (&c)[32], const uint32_t (&a)[4], uint64_t b, bool adds = true) {
    wgmma_registers<Kind>(c, a, b, adds);
}
template <class Kind>
void wgmma_32(float (&c)[16], const uint32_t (&a)[4], uint64_t b, bool adds = true) {
    wgmma_registers<Kind>(c, a, b, adds);
}

}  // namespace quire::kernels::cuda
