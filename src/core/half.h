// 16-bit floats, bit by bit: what the conversion instructions of the ISAs do, readable. Not for
// files compiled for one instruction set: an inline copy there could become everybody's.
#pragma once

#include <bit>
#include <cstdint>

#include "core/kv_layout.h"

namespace quire {

inline float f16_to_f32(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    if (exponent == 31) {  // infinity; a NaN comes out quiet
        const uint32_t quiet = mantissa != 0 ? 0x400000 : 0;
        return std::bit_cast<float>(sign | 0x7f800000 | quiet | mantissa << 13);
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline uint16_t f32_to_f16(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)  // NaN: quiet, upper payload bits kept
        return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds past 65504
    if (magnitude < 0x38800000) {                       // below 2^-14: subnormal or zero
        // Adding 0.5 puts the unit of the last place at 2^-24, so that the addition rounds to even.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

inline float bf16_to_f32(uint16_t h) {
    return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

inline uint16_t f32_to_bf16(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float to_f32(Element e, uint16_t h) {
    return e == Element::f16 ? f16_to_f32(h) : bf16_to_f32(h);
}
inline uint16_t from_f32(Element e, float x) {
    return e == Element::f16 ? f32_to_f16(x) : f32_to_bf16(x);
}

}  // namespace quire
