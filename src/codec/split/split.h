// tq2.5: components of a row that vary most get three bits, the others two. README.md has the
// formula.
#pragma once

#include "codec/codec.h"
#include "codec/hot/layout.h"

namespace quire::codec::split {

// The oracle.
uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);

uint32_t avx2_encode(const EncodePage& job);
void avx2_decode(const DecodePage& job);

uint32_t avx512_encode(const EncodePage& job);
void avx512_decode(const DecodePage& job);

inline constexpr int kManyBits = 3;
inline constexpr int kFewBits = 2;

// Some components of all tokens: a page of the hot family within the page.
struct Part {
    hot::Shape shape;
    uint32_t first;  // of the order of components
    size_t offset;   // in the page
};

// As many sixteens of components as half of them have get three bits, rounded down.
[[gnu::always_inline]] constexpr uint32_t many_dims(uint32_t head_dim) {
    return head_dim / 32 * 16;
}
[[gnu::always_inline]] constexpr Part many_part(const Geometry& g) {
    return {{kManyBits, kManyBits, many_dims(g.head_dim), g.block_tokens}, 0, 0};
}
[[gnu::always_inline]] constexpr Part few_part(const Geometry& g) {
    const Part many = many_part(g);
    return {{kFewBits, kFewBits, g.head_dim - many.shape.head_dim, g.block_tokens},
            many.shape.head_dim,
            hot::page_bytes(many.shape)};
}

// The component that comes `i`th.
[[gnu::always_inline]] constexpr uint32_t component_of(const RowMap& map, uint32_t i) {
    return map.order != nullptr ? map.order[i] : i;
}

}  // namespace quire::codec::split
