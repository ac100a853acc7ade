// The Hadamard transform as the oracles do it.
#pragma once

#include <cstdint>

namespace quire::codec::hot {

// The orthonormal transform of each block of hadamard_block(head_dim) numbers, in place: distances
// 1, 2, 4, ... in this order, then one multiplication. It is its own inverse.
void ref_rotate(float* x, uint32_t head_dim);

}  // namespace quire::codec::hot
