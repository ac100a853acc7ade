// Stands in for src/kernels/cuda/ptx/shared.cuh.
#pragma once

#include <cstdlib>

#include "kernels/cuda/ptx/bulk.cuh"

namespace quire::kernels::cuda {

template <class T>
T read_shared(uint32_t address) {
    T out;
    std::memcpy(&out, at_shared_address(address), sizeof out);
    return out;
}
inline uint32_t load_shared(uint32_t address) {
    return read_shared<uint32_t>(address);
}
// Number [2t + i][g] of matrix m, whose rows begin where lanes 8m to 8m + 7 say, to lane 4g + t.
inline uint4 load_transposed(uint32_t address) {
    const uint64_t* rows = emulator::exchange(address);
    const uint32_t g = emulator::lane() / 4, t = emulator::lane() % 4;
    uint32_t words[4];
    for (uint32_t m = 0; m < 4; ++m) {
        uint32_t numbers[2];
        for (uint32_t i = 0; i < 2; ++i) {
            const auto row = static_cast<uint32_t>(rows[8 * m + 2 * t + i]);
            if (row % 16 != 0) std::abort();
            numbers[i] = read_shared<uint16_t>(row + 2 * g);
        }
        words[m] = numbers[0] | numbers[1] << 16;
    }
    return {words[0], words[1], words[2], words[3]};
}
// Numbers [g][2t] and [g][2t + 1] of matrix m to lane 4g + t.
template <uint32_t kMatrices>
void load_matrices_as_they_lie(uint32_t address, uint32_t* words) {
    const uint64_t* rows = emulator::exchange(address);
    for (uint32_t m = 0; m < kMatrices; ++m) {
        const auto row = static_cast<uint32_t>(rows[8 * m + emulator::lane() / 4]);
        if (row % 16 != 0) std::abort();
        words[m] = read_shared<uint32_t>(row + 4 * (emulator::lane() % 4));
    }
}
inline void load_matrices(uint32_t address, uint32_t (&near)[2], uint32_t (&far)[2]) {
    uint32_t words[4];
    load_matrices_as_they_lie<4>(address, words);
    std::copy_n(words, 2, near);
    std::copy_n(words + 2, 2, far);
}
inline void load_matrices(uint32_t address, uint32_t (&two)[2]) {
    load_matrices_as_they_lie<2>(address, two);
}
inline void clear_shared_16(uint32_t address) {
    std::memset(at_shared_address(address), 0, 16);
}
inline uint4 load_shared_16(uint32_t address) {
    return read_shared<uint4>(address);
}
inline void store_shared_16(uint32_t address, const uint4& x) {
    std::memcpy(at_shared_address(address), &x, sizeof x);
}
inline void store_shared(uint32_t address, uint32_t x) {
    std::memcpy(at_shared_address(address), &x, sizeof x);
}
inline uint32_t look_up(uint32_t offset) {
    return read_shared<uint32_t>(kSharedStart + offset);
}
inline uint2 look_up_two(uint32_t offset) {
    return read_shared<uint2>(kSharedStart + offset);
}

inline uint32_t opaque(uint32_t x) {
    return x;
}

}  // namespace quire::kernels::cuda
