// Rows of codes, a byte each, into the bit planes of layout.h and back.
#pragma once

#include "codec/hot/layout.h"
#include "codec/isa/bytes16.h"

namespace quire::codec::hot::generic {

// n_rows rows of 16 codes, at codes + 16 * row; n_rows % 16 == 0.
template <class V, int kWidth, int kShift>
[[gnu::always_inline]] inline void pack_plane(const uint8_t* codes, uint32_t n_rows,
                                              std::byte* plane) {
    using B = Bytes16<V>;
    constexpr uint32_t kRows = rows_per_vector(kWidth);
    constexpr uint8_t kMask = (1 << kWidth) - 1;
    for (uint32_t r = 0; r < n_rows; r += kRows, plane += kLanes) {
        typename B::u8 packed = B::load(codes + size_t{r} * kLanes) >> kShift & kMask;
#pragma GCC unroll 8
        for (uint32_t j = 1; j < kRows; ++j)
            packed |= (B::load(codes + size_t{r + j} * kLanes) >> kShift & kMask) << (j * kWidth);
        B::store(plane, packed);
    }
}

template <class V, int kWidth, int kShift, bool kFirst>
[[gnu::always_inline]] inline void unpack_plane(const std::byte* plane, uint32_t n_rows,
                                                uint8_t* codes) {
    using B = Bytes16<V>;
    constexpr uint32_t kRows = rows_per_vector(kWidth);
    constexpr uint8_t kMask = (1 << kWidth) - 1;
    for (uint32_t r = 0; r < n_rows; r += kRows, plane += kLanes) {
        const typename B::u8 packed = B::load(plane);
#pragma GCC unroll 8
        for (uint32_t j = 0; j < kRows; ++j) {
            uint8_t* at = codes + size_t{r + j} * kLanes;
            typename B::u8 bits = (packed >> (j * kWidth) & kMask) << kShift;
            if constexpr (!kFirst) bits |= B::load(at);
            B::store(at, bits);
        }
    }
}

// The codes of one group of 16 tokens: head_dim rows of one side, of which `side` is the first
// byte.
template <class V, int kBits, int kPlane = 0>
[[gnu::always_inline]] inline void pack_group(const Shape& s, const uint8_t* codes, uint32_t group,
                                              std::byte* side) {
    constexpr int kWidth = planes_of(kBits).width[kPlane];
    std::byte* plane =
        side + plane_offset(s, kBits, kPlane) + size_t{group} * s.head_dim * kLanes * kWidth / 8;
    pack_plane<V, kWidth, plane_shift(kBits, kPlane)>(codes, s.head_dim, plane);
    if constexpr (kPlane + 1 < planes_of(kBits).count)
        pack_group<V, kBits, kPlane + 1>(s, codes, group, side);
}

template <class V, int kBits, int kPlane = 0>
[[gnu::always_inline]] inline void unpack_group(const Shape& s, const std::byte* side,
                                                uint32_t group, uint8_t* codes) {
    constexpr int kWidth = planes_of(kBits).width[kPlane];
    const std::byte* plane =
        side + plane_offset(s, kBits, kPlane) + size_t{group} * s.head_dim * kLanes * kWidth / 8;
    unpack_plane<V, kWidth, plane_shift(kBits, kPlane), kPlane == 0>(plane, s.head_dim, codes);
    if constexpr (kPlane + 1 < planes_of(kBits).count)
        unpack_group<V, kBits, kPlane + 1>(s, side, group, codes);
}

// Token-major codes [16][head_dim] and dim-major ones [head_dim][16].
template <class V>
[[gnu::always_inline]] inline void to_dim_major(const uint8_t* codes, uint32_t head_dim,
                                                uint8_t* rows) {
    for (uint32_t d = 0; d < head_dim; d += kLanes)
        Bytes16<V>::transpose(codes + d, head_dim, rows + size_t{d} * kLanes, kLanes);
}
template <class V>
[[gnu::always_inline]] inline void to_token_major(const uint8_t* rows, uint32_t head_dim,
                                                  uint8_t* codes) {
    for (uint32_t d = 0; d < head_dim; d += kLanes)
        Bytes16<V>::transpose(rows + size_t{d} * kLanes, kLanes, codes + d, head_dim);
}

}  // namespace quire::codec::hot::generic
