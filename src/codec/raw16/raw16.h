// raw16: 16-bit numbers as they are, f16 or bf16 by Geometry::element. README.md has the layout.
#pragma once

#include "codec/codec.h"

namespace quire::codec::raw16 {

uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);
uint32_t avx2_encode(const EncodePage& job);  // AVX2, FMA, F16C
void avx2_decode(const DecodePage& job);
uint32_t avx512_encode(const EncodePage& job);  // AVX-512 F, BW, VL, DQ
void avx512_decode(const DecodePage& job);

// K [head_dim][block_tokens], then V [block_tokens][head_dim]. Offsets in numbers, not bytes.
[[gnu::always_inline]] constexpr size_t k_at(const Geometry& g, uint32_t token, uint32_t dim) {
    return size_t{dim} * g.block_tokens + token;
}
[[gnu::always_inline]] constexpr size_t v_at(const Geometry& g, uint32_t token, uint32_t dim) {
    return size_t{g.head_dim} * g.block_tokens + size_t{token} * g.head_dim + dim;
}

}  // namespace quire::codec::raw16
