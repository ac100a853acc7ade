// fp4 over an ISA vocabulary V. Every sixteen numbers are one vector.
#pragma once

#include "codec/fp4/fp4.h"
#include "codec/fp8/generic.h"
#include "codec/isa/bits64.h"

namespace quire::codec::fp4::generic {

inline constexpr uint32_t kLanes = 16;
inline constexpr uint32_t kMaxBlocks = kMaxHeadDim / kLanes;

// Steps of the blocks of a row, whole vectors of them.
struct Steps {
    alignas(64) float inverse[kMaxBlocks];
    alignas(64) float step[kMaxBlocks];
    alignas(64) uint8_t scale[kMaxBlocks];
};

template <class V>
[[gnu::always_inline]] inline typename V::i32 e2m1_codes(typename V::f32 x,
                                                         typename V::f32 inverse) {
    const auto magnitude = V::abs(V::mul(x, inverse));
    auto code = V::iset1(0);
#pragma GCC unroll 7
    for (int i = 1; i < 8; ++i)
        code = V::add_where_at_least(code, magnitude, V::set1(kThresholds[i]), 1);
    return V::ior(code, V::iand(V::template shift_right<28>(V::bits(x)), V::iset1(8)));
}

template <class V>
[[gnu::always_inline]] inline typename V::f32 e2m1_values(typename V::i32 code) {
    const auto level = V::look_up(V::table8(kLevels), V::iand(code, V::iset1(7)));
    const auto sign = V::template shift_left<28>(V::iand(code, V::iset1(8)));
    return V::from_bits(V::ior(V::bits(level), sign));
}

template <class V>
[[gnu::always_inline]] inline void store_codes(std::byte* p, typename V::i32 codes) {
    alignas(16) uint64_t bytes[2];
    V::store_u8(bytes, codes);
    const uint32_t packed[2] = {pack_nibbles(bytes[0]), pack_nibbles(bytes[1])};
    __builtin_memcpy(p, packed, sizeof(packed));
}
template <class V>
[[gnu::always_inline]] inline typename V::i32 load_codes(const std::byte* p) {
    uint32_t packed[2];
    __builtin_memcpy(packed, p, sizeof(packed));
    const uint64_t bytes[2] = {unpack_nibbles(packed[0]), unpack_nibbles(packed[1])};
    return V::load_u8(bytes);
}

// Bits of the largest finite magnitude of each sixteen numbers. False when a number is not finite.
template <class V>
bool find_tops(const float* in, uint32_t head_dim, int32_t* tops) {
    auto any = V::iset1(0);
    for (uint32_t i = 0; i < head_dim; i += kLanes) {
        const auto word = V::bits(V::abs(V::load(in + i)));
        any = V::imax(any, word);
        const auto finite = V::if_less(word, V::iset1(0x7f800000), word, V::iset1(0));
        tops[i / kLanes] = V::largest(finite);
    }
    return V::largest(any) < 0x7f800000;
}

// E4M3 scales of all blocks; `part`: what top is multiplied by.
template <class V>
void nv_steps(const int32_t* tops, uint32_t blocks, float part, float global, Steps& steps) {
    using Scale = fp8::generic::Numbers<V, false>;
    const auto over_global = V::div(V::set1(1.0f), V::set1(global));
    for (uint32_t b = 0; b < blocks; b += kLanes) {
        const auto top = V::load(reinterpret_cast<const float*>(tops + b));
        const auto code = Scale::codes(V::mul(V::mul(top, V::set1(part)), over_global));
        const auto step = V::mul(Scale::values(code), V::set1(global));
        const auto is_zero = V::iand(V::bits(step), V::iset1(0x7fffffff));
        const auto inverse = V::bits(V::div(V::set1(1.0f), step));
        V::store_u8(steps.scale + b, code);
        V::store(steps.step + b, step);
        V::store(steps.inverse + b,
                 V::from_bits(V::if_less(V::iset1(0), is_zero, inverse, V::iset1(0))));
    }
}

// A step of 0 makes codes of 0, whatever the sign.
template <class V>
[[gnu::always_inline]] inline typename V::i32 block_codes(typename V::f32 x, float inverse) {
    return inverse == 0 ? V::iset1(0) : e2m1_codes<V>(x, V::set1(inverse));
}

template <class V>
[[gnu::always_inline]] inline float squared_error(typename V::f32 x, typename V::i32 codes,
                                                  float step) {
    const auto error = V::sub(V::mul(e2m1_values<V>(codes), V::set1(step)), x);
    return V::sum(V::mul(error, error));
}

// Returns whether all numbers are finite. `put(block, scale)` stores a scale.
template <class V, bool kFourOverSix, class Put>
[[gnu::always_inline]] inline bool encode_nv_row(const float* in, uint32_t head_dim, float global,
                                                 std::byte* codes, Put put) {
    alignas(64) int32_t tops[kMaxBlocks] = {};
    const uint32_t blocks = head_dim / kLanes;
    const bool finite = find_tops<V>(in, head_dim, tops);
    Steps six, four;
    nv_steps<V>(tops, blocks, kSixth, global, six);
    if constexpr (kFourOverSix) nv_steps<V>(tops, blocks, kQuarter, global, four);
    for (uint32_t b = 0; b < blocks; ++b) {
        const auto x = V::load(in + b * kLanes);
        auto chosen = block_codes<V>(x, six.inverse[b]);
        uint8_t scale = six.scale[b];
        if constexpr (kFourOverSix) {
            const auto other = block_codes<V>(x, four.inverse[b]);
            if (squared_error<V>(x, other, four.step[b]) <
                squared_error<V>(x, chosen, six.step[b])) {
                chosen = other;
                scale = four.scale[b];
            }
        }
        store_codes<V>(codes + b * (kLanes / 2), chosen);
        put(b, scale);
    }
    return finite;
}

template <class V, class Put>
[[gnu::always_inline]] inline bool encode_mx_row(const float* in, uint32_t head_dim,
                                                 std::byte* codes, Put put) {
    int32_t tops[kMaxBlocks];
    const bool finite = find_tops<V>(in, head_dim, tops);
    for (uint32_t b = 0; b < head_dim / (2 * kLanes); ++b) {
        const int32_t top = tops[2 * b] > tops[2 * b + 1] ? tops[2 * b] : tops[2 * b + 1];
        const uint32_t scale = mx_scale(static_cast<uint32_t>(top));
        const auto inverse = V::set1(mx_inverse(scale));
        for (uint32_t i = 2 * b; i < 2 * b + 2; ++i)
            store_codes<V>(codes + i * (kLanes / 2),
                           e2m1_codes<V>(V::load(in + i * kLanes), inverse));
        put(b, static_cast<uint8_t>(scale));
    }
    return finite;
}

template <class V, Kind kKind>
uint32_t encode_side(const EncodePage& job, const Side& side, const float* in, size_t stride) {
    if (in == nullptr) return 0;
    const Geometry& g = job.geometry;
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t) {
        const auto put = [&](uint32_t block, uint8_t scale) {
            job.page[scale_at(side, kKind, g, t, block)] = std::byte{scale};
        };
        std::byte* codes = job.page + codes_at(side, g, t);
        const float* row = in + t * stride;
        if constexpr (kKind == Kind::mxfp4)
            not_finite += !encode_mx_row<V>(row, g.head_dim, codes, put);
        else
            not_finite += !encode_nv_row < V,
                kKind == Kind::nvfp4_4over6 > (row, g.head_dim, side.global, codes, put);
    }
    return not_finite;
}

// Steps of a row's blocks of sixteen numbers from its page.
template <class V>
[[gnu::always_inline]] inline void load_steps(const DecodePage& job, const Side& side, Kind kind,
                                              uint32_t token, Steps& steps) {
    const Geometry& g = job.geometry;
    const uint32_t blocks = g.head_dim / block_of(kind);
    for (uint32_t b = 0; b < blocks; ++b)
        steps.scale[b] = static_cast<uint8_t>(job.page[scale_at(side, kind, g, token, b)]);
    if (kind == Kind::mxfp4) {
        for (uint32_t b = 0; b < 2 * blocks; ++b) steps.step[b] = mx_step(steps.scale[b / 2]);
        return;
    }
    for (uint32_t b = 0; b < blocks; b += kLanes) {
        const auto scale = fp8::generic::Numbers<V, false>::values(V::load_u8(steps.scale + b));
        V::store(steps.step + b, V::mul(scale, V::set1(side.global)));
    }
}

template <class V>
void decode_side(const DecodePage& job, const Side& side, float* out, size_t stride) {
    if (out == nullptr) return;
    const Geometry& g = job.geometry;
    const Kind kind = kind_of(job.spec);
    Steps steps = {};
    for (uint32_t t = job.first; t < job.last; ++t) {
        load_steps<V>(job, side, kind, t, steps);
        const std::byte* codes = job.page + codes_at(side, g, t);
        for (uint32_t b = 0; b < g.head_dim / kLanes; ++b)
            V::store(out + t * stride + b * kLanes,
                     V::mul(e2m1_values<V>(load_codes<V>(codes + b * (kLanes / 2))),
                            V::set1(steps.step[b])));
    }
}

template <class V, Kind kKind>
uint32_t encode_sides(const EncodePage& job) {
    const Geometry& g = job.geometry;
    return encode_side<V, kKind>(job, k_side(kKind, g, job.sidecar), job.k, job.k_stride) +
           encode_side<V, kKind>(job, v_side(kKind, g, job.sidecar), job.v, job.v_stride);
}

template <class V>
uint32_t encode_page(const EncodePage& job) {
    switch (kind_of(job.spec)) {
        case Kind::nvfp4:
            return encode_sides<V, Kind::nvfp4>(job);
        case Kind::nvfp4_4over6:
            return encode_sides<V, Kind::nvfp4_4over6>(job);
        default:
            return encode_sides<V, Kind::mxfp4>(job);
    }
}

template <class V>
void decode_page(const DecodePage& job) {
    const Geometry& g = job.geometry;
    const Kind kind = kind_of(job.spec);
    decode_side<V>(job, k_side(kind, g, job.sidecar), job.k, job.k_stride);
    decode_side<V>(job, v_side(kind, g, job.sidecar), job.v, job.v_stride);
}

}  // namespace quire::codec::fp4::generic
