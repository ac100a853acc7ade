// Codes that lie in several planes to bytes, 64 at a time: four rows of sixteen in one register, a
// row in each quarter, so that bits of a plane move to their place by one rotation a quarter.
// Operations a row: 3 bits .75, 5 bits 1, 6 bits 1.25, 7 bits 1.75; then 2 to widen and look up.
#pragma once

#include "kernels/cpu/avx512/isa.h"
#include "kernels/cpu/generic/code_pages.h"

namespace quire::kernels::generic {

template <int kBits>
    requires(hot::planes_of(kBits).count > 1)
struct Unpack<Avx512, kBits> {
    static void group(const hot::Shape& s, const std::byte* side, uint32_t group, uint8_t* room) {
        const std::byte* planes[3];
        for (int p = 0; p < kPlanes.count; ++p)
            planes[p] = side + hot::plane_offset(s, kBits, p) +
                        size_t{group} * s.head_dim * 2 * kPlanes.width[p];
        for (uint32_t row = 0; row < s.head_dim; row += 8, room += 128) {
            _mm512_storeu_si512(room, four_rows<0>(planes, row));
            _mm512_storeu_si512(room + 64, four_rows<1>(planes, row));
        }
    }

 private:
    static constexpr hot::Planes kPlanes = hot::planes_of(kBits);

    // Rows row + 4 kHalf to row + 4 kHalf + 3; row % 8 == 0.
    template <int kHalf>
    [[gnu::always_inline]] static __m512i four_rows(const std::byte* const (&planes)[3],
                                                    uint32_t row) {
        __m512i codes = in_place<0, kHalf>(planes[0], row);
        codes = with_plane<1, kHalf>(codes, planes[1], row);
        if constexpr (kPlanes.count > 2) codes = with_plane<2, kHalf>(codes, planes[2], row);
        if constexpr (!hot::is_lloyd(kBits))
            codes = _mm512_and_si512(codes, _mm512_set1_epi8((1 << kBits) - 1));
        return codes;
    }

    // Bits from a plane's place up come from `codes`, those below from the plane.
    template <int kPlane, int kHalf>
    [[gnu::always_inline]] static __m512i with_plane(__m512i codes, const std::byte* plane,
                                                     uint32_t row) {
        constexpr int kAbove = hot::plane_shift(kBits, kPlane - 1);
        constexpr int kSelect = 0xca;  // mask ? first : second
        const __m512i mask = _mm512_set1_epi8(static_cast<char>(0xff << kAbove & 0xff));
        const __m512i below = in_place<kPlane, kHalf>(plane, row);
        return _mm512_ternarylogic_epi32(mask, codes, below, kSelect);
    }

    // The plane's bits of each row at their place in the code, beside bits of other rows.
    template <int kPlane, int kHalf>
    [[gnu::always_inline]] static __m512i in_place(const std::byte* plane, uint32_t row) {
        constexpr int kWidth = kPlanes.width[kPlane];
        constexpr int kShift = hot::plane_shift(kBits, kPlane);
        constexpr int kFirst = kWidth == 1 ? 4 * kHalf : 0;  // bit of the first row in its byte
        constexpr auto kRotate = [](int quarter) {
            return (kFirst + quarter * kWidth % 8 - kShift) & 31;
        };
        const std::byte* at = plane + size_t{row} * 2 * kWidth;
        __m512i bytes;
        if constexpr (kWidth == 4) {  // two rows share 16 bytes
            const __m512i pairs = _mm512_castsi256_si512(
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + 32 * kHalf)));
            bytes = _mm512_shuffle_i64x2(pairs, pairs, 0x50);
        } else {
            bytes = _mm512_broadcast_i32x4(_mm_loadu_si128(
                reinterpret_cast<const __m128i*>(at + (kWidth == 2 ? 16 * kHalf : 0))));
        }
        const __m512i counts =
            _mm512_set_epi32(kRotate(3), kRotate(3), kRotate(3), kRotate(3), kRotate(2), kRotate(2),
                             kRotate(2), kRotate(2), kRotate(1), kRotate(1), kRotate(1), kRotate(1),
                             kRotate(0), kRotate(0), kRotate(0), kRotate(0));
        return _mm512_rorv_epi32(bytes, counts);
    }
};

}  // namespace quire::kernels::generic
