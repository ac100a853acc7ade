// A rotated row to codes and back, over an ISA vocabulary V.
//
// Measured (AVX-512, one core): the search for the scale is most of the time; a comparison against
// thresholds by halving takes half the instructions of one against each.
#pragma once

#include "base/host_device.h"
#include "codec/hot/scale.h"

namespace quire::codec::hot::generic {

// Integer levels: the nearest one of a vector of numbers over their scale.
template <class V, int kBits, bool kLloyd = is_lloyd(kBits)>
struct Levels {
    using f32 = typename V::f32;
    using i32 = typename V::i32;
    static constexpr int kHalf = magnitudes(kBits);

    QUIRE_HOST_DEVICE f32 nearest(f32 z) const {
        const f32 low = V::set1(-static_cast<float>(kHalf));
        const f32 high = V::set1(static_cast<float>(kHalf - 1));
        return V::round_even(V::min(V::max(z, low), high));
    }
    // The error of x, z being x over the scale.
    QUIRE_HOST_DEVICE f32 error(f32 x, f32 z, f32 scale) const {
        return V::fnma(nearest(z), scale, x);
    }
    QUIRE_HOST_DEVICE i32 codes(f32 z) const {
        return V::iadd(V::to_int(nearest(z)), V::iset1(kHalf));
    }
    QUIRE_HOST_DEVICE f32 level(i32 code) const {
        return V::to_float(V::isub(code, V::iset1(kHalf)));
    }
};

// Lloyd levels: a sign and the index of a magnitude.
template <class V, int kBits>
struct Levels<V, kBits, true> {
    using f32 = typename V::f32;
    using i32 = typename V::i32;
    static constexpr int kHalf = magnitudes(kBits);
    static constexpr const float* kThresholds = lloyd_thresholds(kBits);

    QUIRE_HOST_DEVICE static auto load_table(const float* p) {
        if constexpr (kBits == 5)
            return V::table16(p);
        else
            return V::table8(p);
    }
    using Table = decltype(load_table(nullptr));
    Table levels = load_table(lloyd_levels(kBits));
    Table by_four = load_table(kThresholds + 3);
    Table by_two = load_table(kThresholds + 1);
    Table by_one = load_table(kThresholds);

    // How many thresholds are at most `magnitude`.
    QUIRE_HOST_DEVICE i32 index(f32 magnitude) const {
        constexpr int kFirst = kHalf / 2;
        i32 i =
            V::add_where_at_least(V::iset1(0), magnitude, V::set1(kThresholds[kFirst - 1]), kFirst);
        if constexpr (kFirst > 4)
            i = V::add_where_at_least(i, magnitude, V::look_up(by_four, i), 4);
        if constexpr (kFirst > 2) i = V::add_where_at_least(i, magnitude, V::look_up(by_two, i), 2);
        if constexpr (kFirst > 1) i = V::add_where_at_least(i, magnitude, V::look_up(by_one, i), 1);
        return i;
    }
    // Up to its sign.
    QUIRE_HOST_DEVICE f32 error(f32 x, f32 z, f32 scale) const {
        return V::fnma(V::look_up(levels, index(V::abs(z))), scale, V::abs(x));
    }
    QUIRE_HOST_DEVICE i32 codes(f32 z) const {
        const i32 minus = V::template shift_sign<31>(V::bits(z));  // -1 - i: mirrored
        return V::iadd(V::ixor(index(V::abs(z)), minus), V::iset1(kHalf));
    }
    QUIRE_HOST_DEVICE f32 level(i32 code) const {
        const i32 ranked = V::isub(code, V::iset1(kHalf));
        const i32 minus = V::template shift_sign<31>(ranked);
        const f32 magnitude = V::look_up(levels, V::ixor(ranked, minus));
        return V::from_bits(V::ixor(V::bits(magnitude), V::template shift_left<31>(minus)));
    }
};

template <class V, int kBits>
[[gnu::always_inline]] QUIRE_HOST_DEVICE inline float squared_error(const Levels<V, kBits>& levels,
                                                                    const float* x,
                                                                    uint32_t head_dim, uint32_t u) {
    const auto scale = V::set1(scale_of(kBits, u));
    const auto inverse = V::set1(inverse_scale_of(kBits, u));
    auto sum = V::zero();
    for (uint32_t i = 0; i < head_dim; i += kLanes) {
        const auto value = V::load(x + i);
        const auto error = levels.error(value, V::mul(value, inverse), scale);
        sum = V::fma(error, error, sum);
    }
    return V::sum(sum);
}

template <class V>
[[gnu::always_inline]] QUIRE_HOST_DEVICE inline float root_mean_square(const float* x,
                                                                       uint32_t head_dim) {
    auto sum = V::zero();
    for (uint32_t i = 0; i < head_dim; i += kLanes) {
        const auto value = V::load(x + i);
        sum = V::fma(value, value, sum);
    }
    return __builtin_sqrtf(V::sum(sum) / static_cast<float>(head_dim));
}

template <class V, int kBits>
[[gnu::always_inline]] QUIRE_HOST_DEVICE inline uint32_t best_scale(const Levels<V, kBits>& levels,
                                                                    const float* x,
                                                                    uint32_t head_dim,
                                                                    float largest) {
    float amplitude = largest * (1.0f / reach(kBits));
    if constexpr (kBits == 2)
        amplitude = largest < kHuge ? root_mean_square<V>(x, head_dim) : largest;
    const int anchor = scale_at_least(kBits, amplitude);
    constexpr Search kSearch = search_of(kBits);
    uint32_t best = clamp_scale(anchor + kSearch.highest);
    float least = squared_error<V, kBits>(levels, x, head_dim, best);
    for (int step = kSearch.highest - 1; step >= kSearch.lowest; --step) {
        const uint32_t u = clamp_scale(anchor + step);
        const float error = squared_error<V, kBits>(levels, x, head_dim, u);
        best = error < least ? u : best;
        least = error < least ? error : least;
    }
    return best;
}

// The magnitude bits of the row's largest number; of a NaN or an infinity when there is one.
template <class V>
[[gnu::always_inline]] QUIRE_HOST_DEVICE inline int32_t largest_bits(const float* x,
                                                                     uint32_t head_dim) {
    auto top = V::iset1(0);
    for (uint32_t i = 0; i < head_dim; i += kLanes)
        top = V::imax(top, V::bits(V::abs(V::load(x + i))));
    return V::largest(top);
}

struct CodedRow {
    uint8_t scale;
    bool finite;
};

// Codes of a rotated row.
template <class V, int kBits>
QUIRE_HOST_DEVICE CodedRow quantise_row(const float* x, uint32_t head_dim, uint8_t* codes) {
    const int32_t top = largest_bits<V>(x, head_dim);
    const bool finite = top < 0x7f800000;
    const float largest = __builtin_bit_cast(float, top);
    if (!finite || largest <= zero_below(kBits)) {
        __builtin_memset(codes, 0, head_dim);
        return {0, finite};
    }
    const Levels<V, kBits> levels;
    const uint32_t u = best_scale<V, kBits>(levels, x, head_dim, largest);
    const auto inverse = V::set1(inverse_scale_of(kBits, u));
    for (uint32_t i = 0; i < head_dim; i += kLanes)
        V::store_u8(codes + i, levels.codes(V::mul(V::load(x + i), inverse)));
    return {static_cast<uint8_t>(u), true};
}

template <class V, int kBits>
QUIRE_HOST_DEVICE void dequantise_row(const uint8_t* codes, uint32_t head_dim, uint8_t u,
                                      float* x) {
    const Levels<V, kBits> levels;
    const auto scale = V::set1(decode_scale(kBits, u));
    for (uint32_t i = 0; i < head_dim; i += kLanes)
        V::store(x + i, V::mul(levels.level(V::load_u8(codes + i)), scale));
}

}  // namespace quire::codec::hot::generic
