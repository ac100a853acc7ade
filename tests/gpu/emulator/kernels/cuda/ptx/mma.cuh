// Stands in for src/kernels/cuda/ptx/mma.cuh, as far as kernels that run here need it.
#pragma once

namespace quire::kernels::cuda {

inline float half_of(uint64_t pair, uint32_t i) {
    __half_raw raw;
    raw.x = static_cast<uint16_t>(pair >> (16 * i));
    return __half2float(__half(raw));
}

// Number k of row `row` of A is in register row / 8 + 2 (k / 8) of lane 4 (row % 8) + k % 8 / 2;
// number k of column n of B in register k / 8 of lane 4n + k % 8 / 2.
template <class Number>
void multiply_rows(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Number number) {
    const auto two = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
    const uint32_t g = emulator::lane() / 4, t = emulator::lane() % 4;
    float rows[2][16], columns[2][16];
    for (uint32_t half = 0; half < 2; ++half) {
        const uint64_t* words = emulator::exchange(two(a[2 * half], a[2 * half + 1]));
        for (uint32_t k = 0; k < 8; ++k)
            for (uint32_t row = 0; row < 2; ++row)
                rows[row][8 * half + k] = number(words[4 * g + k / 2] >> (32 * row), k % 2);
    }
    const uint64_t* words = emulator::exchange(two(b[0], b[1]));
    for (uint32_t k = 0; k < 16; ++k)
        for (uint32_t i = 0; i < 2; ++i)
            columns[i][k] = number(words[4 * (2 * t + i) + k % 8 / 2] >> (k / 8 * 32), k % 2);
    for (uint32_t i = 0; i < 4; ++i)
        for (uint32_t k = 0; k < 16; ++k) c[i] += rows[i / 2][k] * columns[i % 2][k];
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    multiply_rows(c, a, b, [](uint64_t pair, uint32_t i) { return half_of(pair, i); });
}

inline float bf16_of(uint64_t pair, uint32_t i) {
    return __uint_as_float(static_cast<uint32_t>(pair >> (16 * i)) << 16);
}
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    multiply_rows(c, a, b, [](uint64_t pair, uint32_t i) { return bf16_of(pair, i); });
}
inline void product_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    std::fill_n(d, 4, 0.0f);
    mma_bf16(d, a, b);
}

inline uint32_t transpose_8x8(uint32_t rows) {
    const uint64_t* all = emulator::exchange(rows);
    const uint32_t g = emulator::lane() / 4, t = emulator::lane() % 4;
    uint32_t out = 0;
    for (uint32_t i = 0; i < 2; ++i) {
        const uint64_t word = all[4 * (2 * t + i) + g / 2];
        out |= static_cast<uint32_t>(word >> (16 * (g % 2)) & 0xffff) << (16 * i);
    }
    return out;
}

}  // namespace quire::kernels::cuda
