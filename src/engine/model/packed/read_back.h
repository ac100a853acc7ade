// One code and one scale of a packed matrix at a time, in the order of layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/packed/layout.h"
#include "kernels/ref/half.h"

namespace quire::packed {

inline const uint8_t* as_bytes(const std::byte* p) {
    return reinterpret_cast<const uint8_t*>(p);
}

// Float16 number `index` of those from p on.
inline float packed_half(const uint8_t* p, int64_t index) {
    const uint8_t* at = p + 2 * index;
    return kernels::ref::f16_to_f32(static_cast<uint16_t>(at[0] | at[1] << 8));
}

// Of input i, 0 to 31, of the block whose codes begin at `codes`.
inline int32_t code_at(int bits, const uint8_t* codes, int64_t output, int i) {
    const int v = i / 4;
    constexpr int kPlace[4] = {0, 2, 1, 3};
    const int64_t lane = output * 4 + kPlace[i % 4];
    if (bits == 8) return codes[v * 64 + lane];
    const int32_t low = codes[v % 4 * 64 + lane] >> (v / 4 * 4) & 15;
    if (bits == 5) return low | (codes[256 + lane] >> v & 1) << 4;
    if (bits == 6) return low | (codes[256 + v / 4 * 64 + lane] >> (v % 4 * 2) & 3) << 4;
    return low;
}

}  // namespace quire::packed
