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
    uint64_t rows[4][32], columns[2][32];
    for (int i = 0; i < 4; ++i) std::memcpy(rows[i], emulator::exchange(a[i]), sizeof rows[i]);
    for (int i = 0; i < 2; ++i)
        std::memcpy(columns[i], emulator::exchange(b[i]), sizeof columns[i]);
    const uint32_t g = emulator::lane() / 4, t = emulator::lane() % 4;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = 2 * t + i % 2;
        for (uint32_t k = 0; k < 16; ++k)
            c[i] += number(rows[i / 2 + k / 8 * 2][4 * g + k % 8 / 2], k % 2) *
                    number(columns[k / 8][4 * column + k % 8 / 2], k % 2);
    }
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    multiply_rows(c, a, b, half_of);
}

inline float bf16_of(uint64_t pair, uint32_t i) {
    return __uint_as_float(static_cast<uint32_t>(pair >> (16 * i)) << 16);
}
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    multiply_rows(c, a, b, bf16_of);
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
