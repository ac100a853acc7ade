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
    const float* mean;
};
[[gnu::always_inline]] inline Side k_side(const Shape& s, const HeadSidecar& sidecar) {
    return {true, s.k_bits, k_offset(s), k_scales_offset(s), sidecar.k_mean};
}
[[gnu::always_inline]] inline Side v_side(const Shape& s, const HeadSidecar& sidecar) {
    return {false, s.v_bits, v_offset(s), v_scales_offset(s), sidecar.v_mean};
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

template <class V>
[[gnu::always_inline]] inline void rotated_row(const float* in, const float* mean,
                                               uint32_t head_dim, float* x) {
    for (uint32_t i = 0; i < head_dim; i += kLanes) {
        const auto value = V::load(in + i);
        V::store(x + i, mean != nullptr ? V::sub(value, V::load(mean + i)) : value);
    }
    rotate<V>(x, head_dim);
}

template <class V, int kBits>
uint32_t encode_side(const EncodePage& job, const Shape& s, const Side& side, const float* in,
                     size_t stride) {
    alignas(64) uint8_t codes[kGroupTokens * kMaxHeadDim];
    alignas(64) float x[kMaxHeadDim];
    uint32_t not_finite = 0;
    for (uint32_t group = job.first / kGroupTokens; group * kGroupTokens < job.last; ++group) {
        const TokenRange tokens = tokens_in(group, job.first, job.last);
        if (!tokens.whole()) load_codes<V, kBits>(s, side, job.page, group, codes);
        for (uint32_t t = tokens.first; t < tokens.last; ++t) {
            rotated_row<V>(in + t * stride, side.mean, s.head_dim, x);
            const CodedRow row = quantise_row<V, kBits>(
                x, s.head_dim, codes + size_t{t % kGroupTokens} * s.head_dim);
            job.page[side.scales + t] = static_cast<std::byte>(row.scale);
            not_finite += !row.finite;
        }
        store_codes<V, kBits>(s, side, codes, group, job.page);
    }
    return not_finite;
}

template <class V, int kBits>
void decode_side(const DecodePage& job, const Shape& s, const Side& side, float* out,
                 size_t stride) {
    alignas(64) uint8_t codes[kGroupTokens * kMaxHeadDim];
    for (uint32_t group = job.first / kGroupTokens; group * kGroupTokens < job.last; ++group) {
        const TokenRange tokens = tokens_in(group, job.first, job.last);
        load_codes<V, kBits>(s, side, job.page, group, codes);
        for (uint32_t t = tokens.first; t < tokens.last; ++t) {
            float* x = out + t * stride;
            const auto u = static_cast<uint8_t>(job.page[side.scales + t]);
            dequantise_row<V, kBits>(codes + size_t{t % kGroupTokens} * s.head_dim, s.head_dim, u,
                                     x);
            if (!job.original_space) continue;
            rotate<V>(x, s.head_dim);
            for (uint32_t i = 0; side.mean != nullptr && i < s.head_dim; i += kLanes)
                V::store(x + i, V::add(V::load(x + i), V::load(side.mean + i)));
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

template <class V>
uint32_t encode_page(const EncodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    const auto one_side = [&](const Side& side, const float* in, size_t stride) -> uint32_t {
        if (in == nullptr || job.first >= job.last) return 0;
        return with_bits<V>(side.bits, [&]<int kBits>() {
            return encode_side<V, kBits>(job, s, side, in, stride);
        });
    };
    return one_side(k_side(s, job.sidecar), job.k, job.k_stride) +
           one_side(v_side(s, job.sidecar), job.v, job.v_stride);
}

template <class V>
void decode_page(const DecodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    const auto one_side = [&](const Side& side, float* out, size_t stride) {
        if (out == nullptr || job.first >= job.last) return;
        with_bits<V>(side.bits,
                     [&]<int kBits>() { decode_side<V, kBits>(job, s, side, out, stride); });
    };
    one_side(k_side(s, job.sidecar), job.k, job.k_stride);
    one_side(v_side(s, job.sidecar), job.v, job.v_stride);
}

}  // namespace quire::codec::hot::generic
