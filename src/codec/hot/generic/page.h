// A page, a group of 16 tokens at a time, over an ISA vocabulary V.
#pragma once

#include "codec/hot/generic/planes.h"
#include "codec/hot/generic/quantise.h"
#include "codec/hot/generic/rotate.h"
#include "codec/hot/hot.h"
#include "codec/isa/ranges.h"

namespace quire::codec::hot::generic {

// One side of a page: K (dim-major) or V.
struct Side {
    bool dim_major;
    int bits;
    size_t codes;   // offset in the page
    size_t scales;  // offset in the page
};
[[gnu::always_inline]] inline Side k_side(const Shape& s) {
    return {true, s.k_bits, k_offset(s), k_scales_offset(s)};
}
[[gnu::always_inline]] inline Side v_side(const Shape& s) {
    return {false, s.v_bits, v_offset(s), v_scales_offset(s)};
}

template <class V, int kBits>
void load_codes(const Shape& s, const Side& side, const std::byte* page, uint32_t group,
                uint8_t* codes) {
    if (!side.dim_major) return unpack_group<V, kBits>(s, page + side.codes, group, codes);
    alignas(64) uint8_t rows[kGroupTokens * kMaxHeadDim];
    unpack_group<V, kBits>(s, page + side.codes, group, rows);
    to_token_major<V>(rows, s.head_dim, codes);
}

template <class V, int kBits>
void store_codes(const Shape& s, const Side& side, const uint8_t* codes, uint32_t group,
                 std::byte* page) {
    if (!side.dim_major) return pack_group<V, kBits>(s, codes, group, page + side.codes);
    alignas(64) uint8_t rows[kGroupTokens * kMaxHeadDim];
    to_dim_major<V>(codes, s.head_dim, rows);
    pack_group<V, kBits>(s, rows, group, page + side.codes);
}

// Numbers less their mean; `to` may be `from`.
template <class V>
[[gnu::always_inline]] inline void take_off(const float* from, const float* mean, uint32_t n,
                                            float* to) {
    for (uint32_t i = 0; i < n; i += kLanes) {
        const auto value = V::load(from + i);
        V::store(to + i, mean != nullptr ? V::sub(value, V::load(mean + i)) : value);
    }
}
template <class V>
[[gnu::always_inline]] inline void put_on(const float* mean, uint32_t n, float* x) {
    for (uint32_t i = 0; mean != nullptr && i < n; i += kLanes)
        V::store(x + i, V::add(V::load(x + i), V::load(mean + i)));
}

// read(t, x) gives the numbers of token t that are to be rotated and coded.
template <class V, int kBits, class Read>
uint32_t encode_width(std::byte* page, uint32_t first, uint32_t last, const Shape& s,
                      const Side& side, Read read) {
    alignas(64) uint8_t codes[kGroupTokens * kMaxHeadDim];
    alignas(64) float x[kMaxHeadDim];
    uint32_t not_finite = 0;
    for (uint32_t group = first / kGroupTokens; group * kGroupTokens < last; ++group) {
        const TokenRange tokens = tokens_in(group, first, last);
        if (!tokens.whole()) load_codes<V, kBits>(s, side, page, group, codes);
        for (uint32_t t = tokens.first; t < tokens.last; ++t) {
            read(t, x);
            rotate<V>(x, s.head_dim);
            const CodedRow row = quantise_row<V, kBits>(
                x, s.head_dim, codes + size_t{t % kGroupTokens} * s.head_dim);
            page[side.scales + t] = static_cast<std::byte>(row.scale);
            not_finite += !row.finite;
        }
        store_codes<V, kBits>(s, side, codes, group, page);
    }
    return not_finite;
}

// place(t) says where the numbers of token t go; done(t, x) gets them, rotated back when that is
// wanted.
template <class V, int kBits, class Place, class Done>
void decode_width(const std::byte* page, uint32_t first, uint32_t last, const Shape& s,
                  const Side& side, bool rotate_back, Place place, Done done) {
    alignas(64) uint8_t codes[kGroupTokens * kMaxHeadDim];
    for (uint32_t group = first / kGroupTokens; group * kGroupTokens < last; ++group) {
        const TokenRange tokens = tokens_in(group, first, last);
        load_codes<V, kBits>(s, side, page, group, codes);
        for (uint32_t t = tokens.first; t < tokens.last; ++t) {
            float* x = place(t);
            const auto u = static_cast<uint8_t>(page[side.scales + t]);
            dequantise_row<V, kBits>(codes + size_t{t % kGroupTokens} * s.head_dim, s.head_dim, u,
                                     x);
            if (rotate_back) rotate<V>(x, s.head_dim);
            done(t, x);
        }
    }
}

// Calls run<bits> for a width that is known only now.
template <class V, int kBits = kMinBits, class Run>
[[gnu::always_inline]] inline auto with_bits(int bits, Run run) {
    if constexpr (kBits == kMaxBits) {
        return run.template operator()<kBits>();
    } else {
        if (bits == kBits) return run.template operator()<kBits>();
        return with_bits<V, kBits + 1>(bits, run);
    }
}

template <class V, class Read>
uint32_t encode_side(std::byte* page, uint32_t first, uint32_t last, const Shape& s,
                     const Side& side, Read read) {
    if (first >= last) return 0;
    return with_bits<V>(side.bits, [&]<int kBits>() {
        return encode_width<V, kBits>(page, first, last, s, side, read);
    });
}

template <class V, class Place, class Done>
void decode_side(const std::byte* page, uint32_t first, uint32_t last, const Shape& s,
                 const Side& side, bool rotate_back, Place place, Done done) {
    if (first >= last) return;
    with_bits<V>(side.bits, [&]<int kBits>() {
        decode_width<V, kBits>(page, first, last, s, side, rotate_back, place, done);
    });
}

template <class V>
uint32_t encode_page(const EncodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    const auto one_side = [&](const Side& side, const float* in, size_t stride,
                              const float* mean) -> uint32_t {
        if (in == nullptr) return 0;
        return encode_side<V>(job.page, job.first, job.last, s, side, [&](uint32_t t, float* x) {
            take_off<V>(in + t * stride, mean, s.head_dim, x);
        });
    };
    return one_side(k_side(s), job.k, job.k_stride, job.sidecar.k_mean) +
           one_side(v_side(s), job.v, job.v_stride, job.sidecar.v_mean);
}

template <class V>
void decode_page(const DecodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    const auto one_side = [&](const Side& side, float* out, size_t stride, const float* mean) {
        if (out == nullptr) return;
        decode_side<V>(
            job.page, job.first, job.last, s, side, job.original_space,
            [&](uint32_t t) { return out + t * stride; },
            [&](uint32_t, float* x) {
                if (job.original_space) put_on<V>(mean, s.head_dim, x);
            });
    };
    one_side(k_side(s), job.k, job.k_stride, job.sidecar.k_mean);
    one_side(v_side(s), job.v, job.v_stride, job.sidecar.v_mean);
}

}  // namespace quire::codec::hot::generic
