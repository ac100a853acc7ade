// fp4: E2M1 numbers in blocks with an E4M3 or E8M0 scale. README.md has the formula and the layout.
#pragma once

#include "codec/codec.h"

namespace quire::codec::fp4 {

uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);
uint32_t avx2_encode(const EncodePage& job);  // AVX2, FMA, F16C
void avx2_decode(const DecodePage& job);
uint32_t avx512_encode(const EncodePage& job);  // AVX-512 F, BW, VL, DQ
void avx512_decode(const DecodePage& job);

// What CodecSpec::option says.
enum class Kind : uint8_t { nvfp4, nvfp4_4over6, mxfp4 };

[[gnu::always_inline]] constexpr Kind kind_of(const CodecSpec& spec) {
    return static_cast<Kind>(spec.option);
}
[[gnu::always_inline]] constexpr uint32_t block_of(Kind kind) {
    return kind == Kind::mxfp4 ? 32 : 16;
}

// One side of a page, offsets in bytes.
struct Side {
    size_t codes;
    size_t scales;
    float global;      // the float32 above E4M3 scales
    bool is_shuffled;  // its scales
};

[[gnu::always_inline]] constexpr size_t side_bytes(Kind kind, const Geometry& g) {
    return size_t{g.block_tokens} * (g.head_dim / 2 + g.head_dim / block_of(kind));
}
[[gnu::always_inline]] constexpr Side k_side(Kind kind, const Geometry& g, const HeadSidecar& s) {
    const size_t codes = size_t{g.block_tokens} * (g.head_dim / 2);
    return {0, codes, kind == Kind::mxfp4 ? 1.0f : s.k_scale, false};
}
[[gnu::always_inline]] constexpr Side v_side(Kind kind, const Geometry& g, const HeadSidecar& s) {
    const size_t begin = side_bytes(kind, g);
    const size_t codes = size_t{g.block_tokens} * (g.head_dim / 2);
    const bool is_mx = kind == Kind::mxfp4;
    return {begin, begin + codes, is_mx ? 1.0f : s.v_scale, !is_mx && g.head_dim % 64 == 0};
}

[[gnu::always_inline]] constexpr size_t codes_at(const Side& side, const Geometry& g,
                                                 uint32_t token) {
    return side.codes + size_t{token} * (g.head_dim / 2);
}
[[gnu::always_inline]] constexpr size_t scale_at(const Side& side, Kind kind, const Geometry& g,
                                                 uint32_t token, uint32_t block) {
    const uint32_t blocks = g.head_dim / block_of(kind);
    if (!side.is_shuffled) return side.scales + size_t{token} * blocks + block;
    const uint32_t quarter = blocks / 4;
    return side.scales + size_t{token / 4 * 4 + block / quarter} * blocks + block % quarter * 4 +
           token % 4;
}

inline constexpr float kLevels[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
// Magnitude i or more has code i: halfway between two levels, where the tie goes to the lower one
// the next float.
inline constexpr float kThresholds[8] = {0.0f,  0x1.000002p-2f, 0.75f, 0x1.400002p0f,
                                         1.75f, 0x1.400002p1f,  3.5f,  0x1.400002p2f};
inline constexpr float kSixth = 1.0f / 6.0f;
inline constexpr float kQuarter = 0.25f;

// E8M0 of a block and its step, from the float32 bits of its largest magnitude.
[[gnu::always_inline]] constexpr uint32_t mx_scale(uint32_t top_bits) {
    const uint32_t exponent = top_bits >> 23;
    return exponent < 2 ? 0 : exponent - 2;
}
[[gnu::always_inline]] constexpr float mx_inverse(uint32_t scale) {  // REQUIRES: scale < 254
    return __builtin_bit_cast(float, (254 - scale) << 23);
}
[[gnu::always_inline]] constexpr float mx_step(uint32_t scale) {
    const uint32_t bits = scale == 255 ? 0x7fc00000u : scale == 0 ? 0x00400000u : scale << 23;
    return __builtin_bit_cast(float, bits);
}

}  // namespace quire::codec::fp4
