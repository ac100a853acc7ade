// fp8 over an ISA vocabulary V.
#pragma once

#include "codec/fp8/fp8.h"
#include "codec/isa/bytes16.h"
#include "codec/isa/ranges.h"

namespace quire::codec::fp8::generic {

template <class V, bool kIsE5m2>
struct Numbers {
    using f32 = typename V::f32;
    using i32 = typename V::i32;
    static constexpr Format kFormat = kIsE5m2 ? kE5m2 : kE4m3;
    static constexpr int32_t kRounderBits = __builtin_bit_cast(int32_t, kFormat.rounder);
    static constexpr int32_t kNormalBits = __builtin_bit_cast(int32_t, kFormat.smallest_normal);

    static i32 codes(f32 x) {
        const i32 bits = V::bits(x);
        const i32 any = V::iand(bits, V::iset1(0x7fffffff));
        const f32 magnitude = V::min(V::from_bits(any), V::set1(kFormat.largest));
        const i32 word = V::bits(magnitude);
        const i32 odd = V::iand(V::template shift_right<kFormat.shift>(word), V::iset1(1));
        const i32 half = V::iset1((1 << (kFormat.shift - 1)) - 1);
        const i32 normal =
            V::isub(V::template shift_right<kFormat.shift>(V::iadd(V::iadd(word, half), odd)),
                    V::iset1(kFormat.rebias));
        const i32 subnormal =
            V::isub(V::bits(V::add(magnitude, V::set1(kFormat.rounder))), V::iset1(kRounderBits));
        i32 code = V::if_less(word, V::iset1(kNormalBits), subnormal, normal);
        code = V::if_less(V::iset1(0x7f800000), any, V::iset1(kNan), code);
        return V::ior(code, V::iand(V::template shift_right<24>(bits), V::iset1(0x80)));
    }

    static f32 values(i32 code) {
        const i32 any = V::iand(code, V::iset1(0x7f));
        const i32 normal =
            V::template shift_left<kFormat.shift>(V::iadd(any, V::iset1(kFormat.rebias)));
        const f32 subnormal = V::mul(V::to_float(any), V::set1(kFormat.subnormal_step));
        constexpr int32_t kFirstNormal = 1 << (23 - kFormat.shift);
        i32 word = V::if_less(any, V::iset1(kFirstNormal), V::bits(subnormal), normal);
        if constexpr (kIsE5m2)
            word = V::if_less(any, V::iset1(kFormat.infinity), word, V::iset1(0x7f800000));
        constexpr int32_t kLastNumber = kIsE5m2 ? kFormat.infinity : kFormat.infinity - 1;
        word = V::if_less(V::iset1(kLastNumber), any, V::iset1(0x7fc00000), word);
        const i32 sign = V::template shift_left<24>(V::iand(code, V::iset1(0x80)));
        return V::from_bits(V::ior(word, sign));
    }
};

// One side of a page.
struct Side {
    bool dim_major;
    float given_scale;
    size_t codes;   // offset of the side
    size_t scales;  // offset of its scales
};
[[gnu::always_inline]] inline Side k_side(const Geometry& g, const HeadSidecar& sidecar) {
    return {true, sidecar.k_scale, k_at(g, 0, 0), k_scale_at(g, 0)};
}
[[gnu::always_inline]] inline Side v_side(const Geometry& g, const HeadSidecar& sidecar) {
    return {false, sidecar.v_scale, v_at(g, 0, 0), v_scale_at(g, 0)};
}

template <class V>
[[gnu::always_inline]] inline float load_scale(const std::byte* p) {
    uint16_t word[16] = {};
    float value[16];
    __builtin_memcpy(word, p, sizeof(word[0]));
    V::store(value, V::load_f16(word));
    return value[0];
}

// Stores a row's scale and returns it as it was stored.
template <class V, bool kIsE5m2>
[[gnu::always_inline]] inline float make_scale(const float* row, uint32_t head_dim, std::byte* p) {
    auto top = V::iset1(0);
    for (uint32_t i = 0; i < head_dim; i += 16) {
        const auto word = V::bits(V::abs(V::load(row + i)));
        top = V::imax(top, V::if_less(word, V::iset1(0x7f800000), word, V::iset1(0)));
    }
    const auto largest = V::from_bits(V::iset1(V::largest(top)));
    auto scale = V::div(largest, V::set1(Numbers<V, kIsE5m2>::kFormat.largest));
    scale = V::max(V::min(scale, V::set1(kLargestScale)), V::set1(kSmallestScale));
    uint16_t words[16];
    V::store_f16(words, scale);
    __builtin_memcpy(p, words, sizeof(words[0]));
    return load_scale<V>(p);
}

// False when a number is not finite.
template <class V, bool kIsE5m2>
bool encode_row(const float* in, uint32_t head_dim, float scale, uint8_t* codes) {
    const auto divisor = V::set1(scale);
    auto top = V::iset1(0);
    for (uint32_t i = 0; i < head_dim; i += 16) {
        const auto x = V::load(in + i);
        top = V::imax(top, V::bits(V::abs(x)));
        V::store_u8(codes + i, Numbers<V, kIsE5m2>::codes(V::div(x, divisor)));
    }
    return V::largest(top) < 0x7f800000;
}

template <class V, bool kIsE5m2>
uint32_t encode_side(const EncodePage& job, const Side& side, const float* in, size_t stride) {
    if (in == nullptr) return 0;
    const Geometry& g = job.geometry;
    auto* codes = reinterpret_cast<uint8_t*>(job.page) + side.codes;
    alignas(64) uint8_t rows[kGroupTokens * kMaxHeadDim];
    uint32_t not_finite = 0;
    for (uint32_t group = job.first / kGroupTokens; group * kGroupTokens < job.last; ++group) {
        const TokenRange tokens = tokens_in(group, job.first, job.last);
        for (uint32_t t = tokens.first; t < tokens.last; ++t) {
            const float* x = in + t * stride;
            float scale = scaling_of(job.spec) == Scaling::head ? side.given_scale : 1.0f;
            if (scaling_of(job.spec) == Scaling::token)
                scale =
                    make_scale<V, kIsE5m2>(x, g.head_dim, job.page + side.scales + size_t{2} * t);
            uint8_t* row = side.dim_major ? rows + size_t{t % kGroupTokens} * g.head_dim
                                          : codes + size_t{t} * g.head_dim;
            not_finite += !encode_row<V, kIsE5m2>(x, g.head_dim, scale, row);
            if (!side.dim_major || tokens.whole()) continue;
            for (uint32_t d = 0; d < g.head_dim; ++d) codes[k_at(g, t, d)] = row[d];
        }
        if (!side.dim_major || !tokens.whole()) continue;
        for (uint32_t d = 0; d < g.head_dim; d += 16)
            Bytes16<V>::transpose(rows + d, g.head_dim, codes + k_at(g, group * kGroupTokens, d),
                                  g.block_tokens);
    }
    return not_finite;
}

template <class V, bool kIsE5m2>
void decode_side(const DecodePage& job, const Side& side, float* out, size_t stride) {
    if (out == nullptr) return;
    const Geometry& g = job.geometry;
    const auto* codes = reinterpret_cast<const uint8_t*>(job.page) + side.codes;
    alignas(64) uint8_t row[kMaxHeadDim];
    for (uint32_t t = job.first; t < job.last; ++t) {
        float scale = scaling_of(job.spec) == Scaling::head ? side.given_scale : 1.0f;
        if (scaling_of(job.spec) == Scaling::token)
            scale = load_scale<V>(job.page + side.scales + size_t{2} * t);
        const uint8_t* from = codes + size_t{t} * g.head_dim;
        if (side.dim_major) {
            for (uint32_t d = 0; d < g.head_dim; ++d) row[d] = codes[k_at(g, t, d)];
            from = row;
        }
        for (uint32_t i = 0; i < g.head_dim; i += 16)
            V::store(out + t * stride + i,
                     V::mul(Numbers<V, kIsE5m2>::values(V::load_u8(from + i)), V::set1(scale)));
    }
}

template <class V, bool kIsE5m2>
uint32_t encode_sides(const EncodePage& job) {
    const Geometry& g = job.geometry;
    return encode_side<V, kIsE5m2>(job, k_side(g, job.sidecar), job.k, job.k_stride) +
           encode_side<V, kIsE5m2>(job, v_side(g, job.sidecar), job.v, job.v_stride);
}

template <class V, bool kIsE5m2>
void decode_sides(const DecodePage& job) {
    const Geometry& g = job.geometry;
    decode_side<V, kIsE5m2>(job, k_side(g, job.sidecar), job.k, job.k_stride);
    decode_side<V, kIsE5m2>(job, v_side(g, job.sidecar), job.v, job.v_stride);
}

template <class V>
uint32_t encode_page(const EncodePage& job) {
    return (job.spec.option & kOptionE5m2) != 0 ? encode_sides<V, true>(job)
                                                : encode_sides<V, false>(job);
}

template <class V>
void decode_page(const DecodePage& job) {
    return (job.spec.option & kOptionE5m2) != 0 ? decode_sides<V, true>(job)
                                                : decode_sides<V, false>(job);
}

}  // namespace quire::codec::fp8::generic
