#include "codec/hot/rotate.h"

#include "codec/hot/scale.h"

namespace quire::codec::hot {

void ref_rotate(float* x, uint32_t head_dim) {
    const uint32_t block = hadamard_block(head_dim);
    for (uint32_t base = 0; base < head_dim; base += block) {
        for (uint32_t h = 1; h < block; h *= 2) {
            for (uint32_t i = 0; i < block; ++i) {
                if ((i & h) != 0) continue;
                const float a = x[base + i], b = x[base + i + h];
                x[base + i] = a + b;
                x[base + i + h] = a - b;
            }
        }
        for (uint32_t i = 0; i < block; ++i) x[base + i] *= hadamard_norm(block);
    }
}

}  // namespace quire::codec::hot
