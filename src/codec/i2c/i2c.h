// i2c: rows turned by a matrix that was learned for their head, then coded as the hot family does.
// README.md has the formula.
#pragma once

#include "codec/codec.h"
#include "codec/hot/layout.h"

namespace quire::codec::i2c {

// The oracle.
uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);

uint32_t avx2_encode(const EncodePage& job);
void avx2_decode(const DecodePage& job);

uint32_t avx512_encode(const EncodePage& job);
void avx512_decode(const DecodePage& job);

[[gnu::always_inline]] inline hot::Shape shape_of(const CodecSpec& spec, const Geometry& geometry) {
    return {spec.k_bits, spec.v_bits, geometry.head_dim, geometry.block_tokens};
}

}  // namespace quire::codec::i2c
