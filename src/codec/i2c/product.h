// A row times a matrix over an ISA vocabulary V, in the oracle's order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::codec::i2c::generic {

// Numbers [i, i + kVectors * 16) of x times a matrix [n][n].
template <class V, uint32_t kVectors>
[[gnu::always_inline]] inline void product_columns(const float* x, const float* matrix, uint32_t n,
                                                   uint32_t i, float* out) {
    constexpr uint32_t kLanes = 16;
    typename V::f32 sums[kVectors];
    for (auto& sum : sums) sum = V::zero();
    for (uint32_t d = 0; d < n; ++d) {
        const auto one = V::set1(x[d]);
        const float* row = matrix + size_t{d} * n + i;
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v)
            sums[v] = V::fma(one, V::load(row + kLanes * v), sums[v]);
    }
    for (uint32_t v = 0; v < kVectors; ++v) V::store(out + i + kLanes * v, sums[v]);
}

// `out` is not `x`.
template <class V>
void product(const float* x, const float* matrix, uint32_t n, float* out) {
    uint32_t i = 0;
    for (; i + 64 <= n; i += 64) product_columns<V, 4>(x, matrix, n, i, out);
    for (; i < n; i += 16) product_columns<V, 1>(x, matrix, n, i, out);
}

}  // namespace quire::codec::i2c::generic
