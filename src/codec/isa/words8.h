// Vectors of eight 16-bit words, as the compiler's own type: for transposing 16-bit numbers. A
// template over the instruction set, as bytes16.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::codec {

template <class V>
struct Words8 {
    using u16 [[gnu::vector_size(16)]] = uint16_t;

    [[gnu::always_inline]] static u16 load(const void* p) {
        u16 x;
        __builtin_memcpy(&x, p, sizeof(x));
        return x;
    }
    [[gnu::always_inline]] static void store(void* p, u16 x) { __builtin_memcpy(p, &x, sizeof(x)); }

    // Row r and row r + 4 of `from` interleaved are rows 2 r and 2 r + 1 of `to`.
    [[gnu::always_inline]] static void interleave_rows(const u16 (&from)[8], u16 (&to)[8]) {
#pragma GCC unroll 4
        for (size_t r = 0; r < 4; ++r) {
            to[2 * r] = __builtin_shufflevector(from[r], from[r + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            to[2 * r + 1] =
                __builtin_shufflevector(from[r], from[r + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
    }

    // to[c * to_stride + r] = from[r * from_stride + c] for 8 rows and 8 columns.
    [[gnu::always_inline]] static void transpose(const uint16_t* from, size_t from_stride,
                                                 uint16_t* to, size_t to_stride) {
        u16 a[8], b[8];
#pragma GCC unroll 8
        for (size_t r = 0; r < 8; ++r) a[r] = load(from + r * from_stride);
        interleave_rows(a, b);
        interleave_rows(b, a);
        interleave_rows(a, b);
#pragma GCC unroll 8
        for (size_t r = 0; r < 8; ++r) store(to + r * to_stride, b[r]);
    }

    // The same for 16 rows and any multiple of 16 columns.
    [[gnu::always_inline]] static void transpose16(const uint16_t* from, size_t from_stride,
                                                   uint32_t columns, uint16_t* to,
                                                   size_t to_stride) {
        for (size_t c = 0; c < columns; c += 8)
            for (size_t r = 0; r < 16; r += 8)
                transpose(from + r * from_stride + c, from_stride, to + c * to_stride + r,
                          to_stride);
    }
};

}  // namespace quire::codec
