// fp8: 8-bit floats, e4m3 or e5m2, with a scale of one, a given one per head, or one per row.
// README.md has the formula and the layout.
#pragma once

#include "codec/codec.h"
#include "codec/fp8/format.h"

namespace quire::codec::fp8 {

uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);
uint32_t avx2_encode(const EncodePage& job);  // AVX2, FMA, F16C
void avx2_decode(const DecodePage& job);
uint32_t avx512_encode(const EncodePage& job);  // AVX-512 F, BW, VL, DQ
void avx512_decode(const DecodePage& job);

// What CodecSpec::option says.
enum class Scaling : uint8_t { one, head, token };
inline constexpr uint16_t kOptionE5m2 = 4;

[[gnu::always_inline]] constexpr Scaling scaling_of(const CodecSpec& spec) {
    return static_cast<Scaling>(spec.option & 3);
}
[[gnu::always_inline]] constexpr const Format& format_of(const CodecSpec& spec) {
    return (spec.option & kOptionE5m2) != 0 ? kE5m2 : kE4m3;
}

// Offsets in bytes: K [head_dim][block_tokens], V [block_tokens][head_dim], then with
// Scaling::token the f16 scales of K and of V, block_tokens each.
[[gnu::always_inline]] constexpr size_t k_at(const Geometry& g, uint32_t token, uint32_t dim) {
    return size_t{dim} * g.block_tokens + token;
}
[[gnu::always_inline]] constexpr size_t v_at(const Geometry& g, uint32_t token, uint32_t dim) {
    return size_t{g.head_dim} * g.block_tokens + size_t{token} * g.head_dim + dim;
}
[[gnu::always_inline]] constexpr size_t k_scale_at(const Geometry& g, uint32_t token) {
    return size_t{2} * g.head_dim * g.block_tokens + size_t{2} * token;
}
[[gnu::always_inline]] constexpr size_t v_scale_at(const Geometry& g, uint32_t token) {
    return k_scale_at(g, g.block_tokens + token);
}

}  // namespace quire::codec::fp8
