// turbo: TurboQuant as its paper has it. README.md has the formula and the layout.
#pragma once

#include "codec/codec.h"
#include "codec/turbo/rotation.h"

namespace quire::codec::turbo {

uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);

// What CodecSpec::option says.
inline constexpr uint16_t kOptionProduct = 1;
inline constexpr uint16_t kOptionHadamard = 2;

// One side of a page: how its rows are coded.
struct Side {
    uint32_t head_dim;
    uint32_t bits;    // a number
    bool is_product;  // the last of them is a sign of the residual
    RotationKind rotation;

    constexpr uint32_t level_bits() const { return is_product ? bits - 1 : bits; }
    constexpr uint32_t codes_bytes() const { return head_dim * level_bits() / 8; }
    constexpr uint32_t row_bytes() const { return head_dim * bits / 8 + (is_product ? 4 : 2); }
};

constexpr Side k_side(const CodecSpec& spec, const Geometry& g) {
    const bool is_hadamard = (spec.option & kOptionHadamard) != 0;
    return {g.head_dim, spec.k_bits, (spec.option & kOptionProduct) != 0,
            is_hadamard ? RotationKind::hadamard : RotationKind::random};
}
constexpr Side v_side(const CodecSpec& spec, const Geometry& g) {
    Side side = k_side(spec, g);
    side.bits = spec.v_bits;
    side.is_product = false;
    return side;
}

// Up to sixteen rows of `side`, `stride` floats apart, to or from row_bytes() each. Other seeds
// than kSeed are for tests of what holds on average. Returns how many rows held a NaN or an
// infinity.
inline constexpr uint64_t kSeed = 2504'19874;
uint32_t encode_rows(const Side& side, uint64_t seed, const float* in, size_t stride, uint32_t rows,
                     std::byte* to);
void decode_rows(const Side& side, uint64_t seed, const std::byte* from, uint32_t rows,
                 bool original_space, float* out, size_t stride);

}  // namespace quire::codec::turbo
