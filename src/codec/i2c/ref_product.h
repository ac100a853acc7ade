// The oracle's row times a matrix.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace quire::codec::i2c {

// x [n] times a matrix [n][n], number 0 first. `out` is not `x`.
inline void ref_product(const float* x, const float* matrix, uint32_t n, float* out) {
    for (uint32_t i = 0; i < n; ++i) out[i] = 0;
    for (uint32_t d = 0; d < n; ++d)
        for (uint32_t i = 0; i < n; ++i) out[i] = std::fma(x[d], matrix[size_t{d} * n + i], out[i]);
}

}  // namespace quire::codec::i2c
