// slots over an ISA vocabulary V.
#pragma once

#include "codec/fp8/generic.h"
#include "codec/hot/generic/rotate.h"
#include "codec/isa/bits64.h"
#include "codec/slots/slots.h"
#include "codec/slots/table.h"

namespace quire::codec::slots::generic {

inline constexpr uint32_t kLanes = 16;
inline constexpr int32_t kInfinity = 0x7f800000;

// Codes of sixteen numbers, side by side. Three bits each are six bytes: a word and a half.
template <class V, uint32_t kBits>
[[gnu::always_inline]] inline void store_codes(std::byte* p, typename V::i32 codes) {
    alignas(16) uint64_t bytes[2];
    V::store_u8(bytes, codes);
    if constexpr (kBits == 4) {
        const uint32_t packed[2] = {pack_nibbles(bytes[0]), pack_nibbles(bytes[1])};
        __builtin_memcpy(p, packed, sizeof(packed));
    } else {
        const uint32_t low = pack_threes(bytes[0]), high = pack_threes(bytes[1]);
        const uint32_t word = low | high << 24;
        const auto rest = static_cast<uint16_t>(high >> 8);
        __builtin_memcpy(p, &word, sizeof(word));
        __builtin_memcpy(p + sizeof(word), &rest, sizeof(rest));
    }
}
template <class V, uint32_t kBits>
[[gnu::always_inline]] inline typename V::i32 load_codes(const std::byte* p) {
    uint64_t bytes[2];
    if constexpr (kBits == 4) {
        uint32_t packed[2];
        __builtin_memcpy(packed, p, sizeof(packed));
        bytes[0] = unpack_nibbles(packed[0]);
        bytes[1] = unpack_nibbles(packed[1]);
    } else {
        uint32_t word;
        uint16_t rest;
        __builtin_memcpy(&word, p, sizeof(word));
        __builtin_memcpy(&rest, p + sizeof(word), sizeof(rest));
        bytes[0] = unpack_threes(word);
        bytes[1] = unpack_threes(word >> 24 | uint32_t{rest} << 8);
    }
    return V::load_u8(bytes);
}

template <class V>
[[gnu::always_inline]] inline void put_half(std::byte* p, float x) {
    uint16_t words[kLanes];
    V::store_f16(words, V::max(V::min(V::set1(x), V::set1(kLargestHalf)), V::set1(-kLargestHalf)));
    __builtin_memcpy(p, words, sizeof(words[0]));
}

template <class V>
bool is_finite(const float* x, uint32_t n) {
    auto any = V::iset1(0);
    for (uint32_t i = 0; i < n; i += kLanes) any = V::imax(any, V::bits(V::abs(V::load(x + i))));
    return V::largest(any) < kInfinity;
}

template <class V>
float root_of_squares(const float* x, uint32_t n, float floor) {
    auto lanes = V::zero();
    for (uint32_t i = 0; i < n; i += kLanes) {
        const auto part = V::load(x + i);
        lanes = V::fma(part, part, lanes);
    }
    return __builtin_sqrtf(V::sum(lanes) + floor);
}

template <class V, uint32_t kBits>
void encode_rotated_key(const Shape& s, const float* k, std::byte* to) {
    const float norm = root_of_squares<V>(k, s.head_dim, 0.0f);
    if (!(norm < __builtin_inff())) {
        __builtin_memset(to, 0, s.k_bytes());
        return;
    }
    alignas(64) float y[kMaxRotated];
    const auto divisor = V::set1(norm + kNormFloor);
    for (uint32_t i = 0; i < s.head_dim; i += kLanes)
        V::store(y + i, V::div(V::load(k + i), divisor));
    hot::generic::rotate<V>(y, s.head_dim);
    const Table table = table_of(kBits, s.head_dim);
    for (uint32_t i = 0; i < s.head_dim; i += kLanes) {
        const auto x = V::load(y + i);
        auto code = V::iset1(0);
#pragma GCC unroll 15
        for (uint32_t m = 0; m + 1 < 1u << kBits; ++m)
            code = V::add_where_at_least(code, x, V::set1(table.midpoint[m]), 1);
        store_codes<V, kBits>(to + i * kBits / 8, code);
    }
    put_half<V>(to + s.k_codes_bytes(), norm);
}

template <class V>
[[gnu::always_inline]] inline void encode_key(const Shape& s, const float* k, std::byte* to) {
    if (s.k_bits == 4) return encode_rotated_key<V, 4>(s, k, to);
    if (s.k_bits == 3) return encode_rotated_key<V, 3>(s, k, to);
    for (uint32_t i = 0; i < s.head_dim; i += kLanes)
        V::store_u8(to + i, fp8::generic::Numbers<V, false>::codes(V::load(k + i)));
}

struct Range {
    float low;
    float high;
};
template <class V>
[[gnu::always_inline]] inline Range range_of(const float* v, uint32_t n) {
    auto low = V::load(v), high = low;
    for (uint32_t i = kLanes; i < n; i += kLanes) {
        low = V::min(low, V::load(v + i));
        high = V::max(high, V::load(v + i));
    }
    alignas(64) float lows[kLanes], highs[kLanes];
    V::store(lows, low);
    V::store(highs, high);
    Range range{lows[0], highs[0]};
    for (uint32_t i = 1; i < kLanes; ++i) {
        range.low = lows[i] < range.low ? lows[i] : range.low;
        range.high = highs[i] > range.high ? highs[i] : range.high;
    }
    return range;
}

// The smaller of the zeros among numbers of which none is negative: -0 where there is one.
[[gnu::always_inline]] inline float zero_of(const float* v, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i)
        if (__builtin_signbit(v[i])) return -0.0f;
    return 0.0f;
}

template <class V, uint32_t kBits>
void encode_value(const Shape& s, const float* v, bool finite, std::byte* to) {
    const Range range = range_of<V>(v, s.head_dim);
    const float wide = range.high - range.low;
    if (!finite || !(wide < __builtin_inff())) {
        __builtin_memset(to, 0, s.v_codes_bytes() + 4);
        return;
    }
    constexpr float kTop = (1 << kBits) - 1;
    const float step = wide / kTop > kSmallestStep ? wide / kTop : kSmallestStep;
    for (uint32_t i = 0; i < s.head_dim; i += kLanes) {
        const auto offset = V::sub(V::load(v + i), V::set1(range.low));
        const auto code = V::add(V::div(offset, V::set1(step)), V::set1(0.5f));
        store_codes<V, kBits>(to + i * kBits / 8, V::truncate(V::min(code, V::set1(kTop))));
    }
    put_half<V>(to + s.v_codes_bytes(), step);
    put_half<V>(to + s.v_codes_bytes() + 2, range.low != 0 ? range.low : zero_of(v, s.head_dim));
}

template <class V, uint32_t kBits>
void decode_rotated_key(const Shape& s, const std::byte* from, bool original_space, float* k) {
    const Table table = table_of(kBits, s.head_dim);
    alignas(64) float x[kMaxRotated];
    for (uint32_t i = 0; i < s.head_dim; i += kLanes) {
        const auto code = load_codes<V, kBits>(from + i * kBits / 8);
        if constexpr (kBits == 4)
            V::store(x + i, V::look_up(V::table16(table.level), code));
        else
            V::store(x + i, V::look_up(V::table8(table.level), code));
    }
    const float inverse = 1.0f / root_of_squares<V>(x, s.head_dim, kSquaresFloor);
    const auto norm = V::set1(fp8::generic::load_scale<V>(from + s.k_codes_bytes()));
    for (uint32_t i = 0; i < s.head_dim; i += kLanes)
        V::store(x + i, V::mul(norm, V::mul(V::load(x + i), V::set1(inverse))));
    if (original_space) hot::generic::rotate<V>(x, s.head_dim);
    __builtin_memcpy(k, x, s.head_dim * sizeof(float));
}

template <class V>
[[gnu::always_inline]] inline void decode_key(const Shape& s, const std::byte* from,
                                              bool original_space, float* k) {
    if (s.k_bits == 4) return decode_rotated_key<V, 4>(s, from, original_space, k);
    if (s.k_bits == 3) return decode_rotated_key<V, 3>(s, from, original_space, k);
    for (uint32_t i = 0; i < s.head_dim; i += kLanes)
        V::store(k + i, fp8::generic::Numbers<V, false>::values(V::load_u8(from + i)));
}

template <class V, uint32_t kBits>
void decode_value(const Shape& s, const std::byte* from, float* v) {
    const auto step = V::set1(fp8::generic::load_scale<V>(from + s.v_codes_bytes()));
    const auto low = V::set1(fp8::generic::load_scale<V>(from + s.v_codes_bytes() + 2));
    for (uint32_t i = 0; i < s.head_dim; i += kLanes)
        V::store(v + i, V::fma(V::to_float(load_codes<V, kBits>(from + i * kBits / 8)), step, low));
}

template <class V>
uint32_t encode_page(const EncodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    const uint32_t v_bytes = s.slot_bytes() - s.k_bytes();
    alignas(64) std::byte slot[kMaxSlotBytes];
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t) {
        if (job.k != nullptr) {
            const float* k = job.k + t * job.k_stride;
            not_finite += !is_finite<V>(k, s.head_dim);
            encode_key<V>(s, k, slot);
            copy_in(s, slot, 0, s.k_bytes(), t, job.page);
        }
        if (job.v != nullptr) {
            const float* v = job.v + t * job.v_stride;
            const bool finite = is_finite<V>(v, s.head_dim);
            not_finite += !finite;
            if (s.v_bits == 4)
                encode_value<V, 4>(s, v, finite, slot + s.k_bytes());
            else
                encode_value<V, 3>(s, v, finite, slot + s.k_bytes());
            copy_in(s, slot, s.k_bytes(), v_bytes, t, job.page);
        }
    }
    return not_finite;
}

template <class V>
void decode_page(const DecodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    alignas(64) std::byte slot[kMaxSlotBytes];
    for (uint32_t t = job.first; t < job.last; ++t) {
        copy_out(s, job.page, 0, s.slot_bytes(), t, slot);
        if (job.k != nullptr) decode_key<V>(s, slot, job.original_space, job.k + t * job.k_stride);
        if (job.v == nullptr) continue;
        float* v = job.v + t * job.v_stride;
        if (s.v_bits == 4)
            decode_value<V, 4>(s, slot + s.k_bytes(), v);
        else
            decode_value<V, 3>(s, slot + s.k_bytes(), v);
    }
}

}  // namespace quire::codec::slots::generic
