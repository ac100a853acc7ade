// raw16 over an ISA vocabulary V.
#pragma once

#include "codec/isa/ranges.h"
#include "codec/isa/words8.h"
#include "codec/raw16/raw16.h"

namespace quire::codec::raw16::generic {

template <class V, Element kElement>
[[gnu::always_inline]] inline void store_words(uint16_t* p, typename V::f32 x) {
    if constexpr (kElement == Element::f16) {
        V::store_f16(p, x);
    } else {
        const auto bits = V::bits(x);
        const auto odd = V::iand(V::template shift_right<16>(bits), V::iset1(1));
        const auto even = V::iadd(V::iadd(bits, V::iset1(0x7fff)), odd);
        const auto quiet = V::ior(bits, V::iset1(0x400000));
        const auto rounded =
            V::if_less(V::iset1(0x7f800000), V::bits(V::abs(x)), quiet, even);  // a NaN
        V::store_u16(p, V::template shift_right<16>(rounded));
    }
}

template <class V, Element kElement>
[[gnu::always_inline]] inline typename V::f32 load_words(const uint16_t* p) {
    if constexpr (kElement == Element::f16)
        return V::load_f16(p);
    else
        return V::from_bits(V::template shift_left<16>(V::load_u16(p)));
}

// Rounds a row; false when a number is not finite.
template <class V, Element kElement>
bool encode_row(const float* in, uint32_t head_dim, uint16_t* out) {
    auto top = V::iset1(0);
    for (uint32_t i = 0; i < head_dim; i += 16) {
        const auto x = V::load(in + i);
        top = V::imax(top, V::bits(V::abs(x)));
        store_words<V, kElement>(out + i, x);
    }
    return V::largest(top) < 0x7f800000;
}

template <class V, Element kElement>
void decode_row(const uint16_t* in, uint32_t head_dim, float* out) {
    for (uint32_t i = 0; i < head_dim; i += 16) V::store(out + i, load_words<V, kElement>(in + i));
}

template <class V, Element kElement>
uint32_t encode_keys(const EncodePage& job) {
    const Geometry& g = job.geometry;
    auto* keys = reinterpret_cast<uint16_t*>(job.page);
    alignas(64) uint16_t rows[kGroupTokens * kMaxHeadDim];
    uint32_t not_finite = 0;
    for (uint32_t group = job.first / kGroupTokens; group * kGroupTokens < job.last; ++group) {
        const TokenRange tokens = tokens_in(group, job.first, job.last);
        for (uint32_t t = tokens.first; t < tokens.last; ++t) {
            uint16_t* row = rows + size_t{t % kGroupTokens} * g.head_dim;
            not_finite += !encode_row<V, kElement>(job.k + t * job.k_stride, g.head_dim, row);
            if (tokens.whole()) continue;
            for (uint32_t d = 0; d < g.head_dim; ++d) keys[k_at(g, t, d)] = row[d];
        }
        if (tokens.whole())
            Words8<V>::transpose16(rows, g.head_dim, g.head_dim, keys + group * kGroupTokens,
                                   g.block_tokens);
    }
    return not_finite;
}

template <class V, Element kElement>
uint32_t encode_values(const EncodePage& job) {
    const Geometry& g = job.geometry;
    auto* numbers = reinterpret_cast<uint16_t*>(job.page);
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t)
        not_finite +=
            !encode_row<V, kElement>(job.v + t * job.v_stride, g.head_dim, numbers + v_at(g, t, 0));
    return not_finite;
}

template <class V, Element kElement>
uint32_t encode_sides(const EncodePage& job) {
    return (job.k != nullptr ? encode_keys<V, kElement>(job) : 0) +
           (job.v != nullptr ? encode_values<V, kElement>(job) : 0);
}

template <class V, Element kElement>
void decode_sides(const DecodePage& job) {
    const Geometry& g = job.geometry;
    const auto* numbers = reinterpret_cast<const uint16_t*>(job.page);
    alignas(64) uint16_t row[kMaxHeadDim];
    for (uint32_t t = job.first; t < job.last; ++t) {
        if (job.k != nullptr) {
            for (uint32_t d = 0; d < g.head_dim; ++d) row[d] = numbers[k_at(g, t, d)];
            decode_row<V, kElement>(row, g.head_dim, job.k + t * job.k_stride);
        }
        if (job.v != nullptr)
            decode_row<V, kElement>(numbers + v_at(g, t, 0), g.head_dim, job.v + t * job.v_stride);
    }
}

template <class V>
uint32_t encode_page(const EncodePage& job) {
    return job.geometry.element == Element::f16 ? encode_sides<V, Element::f16>(job)
                                                : encode_sides<V, Element::bf16>(job);
}

template <class V>
void decode_page(const DecodePage& job) {
    return job.geometry.element == Element::f16 ? decode_sides<V, Element::f16>(job)
                                                : decode_sides<V, Element::bf16>(job);
}

}  // namespace quire::codec::raw16::generic
