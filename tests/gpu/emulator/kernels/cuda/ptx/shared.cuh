// Stands in for src/kernels/cuda/ptx/shared.cuh.
#pragma once

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
