// The Hadamard transform, a block in registers at a time, over an ISA vocabulary V.
#pragma once

#include "base/host_device.h"
#include "codec/hot/scale.h"

namespace quire::codec::hot::generic {

template <class V, uint32_t kBlock>
[[gnu::always_inline]] QUIRE_HOST_DEVICE inline void rotate_block(float* x) {
    constexpr uint32_t kVectors = kBlock / kLanes;
    typename V::f32 r[kVectors];
    QUIRE_UNROLL(16)
    for (uint32_t i = 0; i < kVectors; ++i) {
        r[i] = V::template butterfly<1>(V::load(x + kLanes * i));
        r[i] = V::template butterfly<2>(r[i]);
        r[i] = V::template butterfly<4>(r[i]);
        r[i] = V::template butterfly<8>(r[i]);
    }
    QUIRE_UNROLL(4)
    for (uint32_t h = 1; h < kVectors; h *= 2) {
        QUIRE_UNROLL(16)
        for (uint32_t i = 0; i < kVectors; ++i) {
            if ((i & h) != 0) continue;
            const typename V::f32 a = r[i], b = r[i + h];
            r[i] = V::add(a, b);
            r[i + h] = V::sub(a, b);
        }
    }
    const typename V::f32 norm = V::set1(hadamard_norm(kBlock));
    QUIRE_UNROLL(16)
    for (uint32_t i = 0; i < kVectors; ++i) V::store(x + kLanes * i, V::mul(r[i], norm));
}

template <class V, uint32_t kBlock>
QUIRE_HOST_DEVICE void rotate_blocks(float* x, uint32_t head_dim) {
    for (uint32_t base = 0; base < head_dim; base += kBlock) rotate_block<V, kBlock>(x + base);
}

// In place.
template <class V>
QUIRE_HOST_DEVICE void rotate(float* x, uint32_t head_dim) {
    switch (hadamard_block(head_dim)) {
        case 16:
            return rotate_blocks<V, 16>(x, head_dim);
        case 32:
            return rotate_blocks<V, 32>(x, head_dim);
        case 64:
            return rotate_blocks<V, 64>(x, head_dim);
        case 128:
            return rotate_blocks<V, 128>(x, head_dim);
        default:
            return rotate_blocks<V, 256>(x, head_dim);
    }
}

}  // namespace quire::codec::hot::generic
