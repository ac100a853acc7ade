// The oracle of the hot family, one token of one side at a time: for it and for codecs that make
// pages of it out of rows that they turned first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/hot/layout.h"

namespace quire::codec::hot {

// One side of a page: where its parts lie, and which numbering its codes have.
struct RefSide {
    int bits;
    size_t codes;
    size_t scales;
    Place (*place)(const Shape&, uint32_t token, uint32_t dim);
};
RefSide ref_k_side(const Shape& shape);
RefSide ref_v_side(const Shape& shape);

// Rotates and codes a row whose mean is taken off. false: it was not finite then.
bool ref_encode_token(const Shape& shape, const RefSide& side, uint32_t token, const float* row,
                      std::byte* page);
// `row` may be rotated back; no mean is added.
void ref_decode_token(const Shape& shape, const RefSide& side, uint32_t token,
                      const std::byte* page, bool rotate_back, float* row);

}  // namespace quire::codec::hot
