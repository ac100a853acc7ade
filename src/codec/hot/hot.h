// The hot family k{2..8}v{2..8}: what README.md says, behind codec.h. These are the functions of
// its table row, one pair for each instruction set.
#pragma once

#include "codec/codec.h"
#include "codec/hot/layout.h"

namespace quire::codec::hot {

// The oracle: scalar, one number at a time, in the order of operations that README.md states.
uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);

uint32_t avx2_encode(const EncodePage& job);  // AVX2, FMA, F16C
void avx2_decode(const DecodePage& job);

uint32_t avx512_encode(const EncodePage& job);  // AVX-512 F, BW, VL, DQ
void avx512_decode(const DecodePage& job);

[[gnu::always_inline]] inline Shape shape_of(const CodecSpec& spec, const Geometry& geometry) {
    return {spec.k_bits, spec.v_bits, geometry.head_dim, geometry.block_tokens};
}

}  // namespace quire::codec::hot
