// Vectors of sixteen bytes, as the compiler's own type: for packing bits and transposing codes. A
// template over the instruction set, so that files of two of them share no function.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::codec {

template <class V>
struct Bytes16 {
    using u8 [[gnu::vector_size(16)]] = uint8_t;

    [[gnu::always_inline]] static u8 load(const void* p) {
        u8 x;
        __builtin_memcpy(&x, p, sizeof(x));
        return x;
    }
    [[gnu::always_inline]] static void store(void* p, u8 x) { __builtin_memcpy(p, &x, sizeof(x)); }

    [[gnu::always_inline]] static u8 interleave_low(u8 a, u8 b) {
        return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                       23);
    }
    [[gnu::always_inline]] static u8 interleave_high(u8 a, u8 b) {
        return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                       15, 31);
    }

    // Row r and row r + 8 of `from` interleaved are rows 2 r and 2 r + 1 of `to`.
    [[gnu::always_inline]] static void interleave_rows(const u8 (&from)[16], u8 (&to)[16]) {
#pragma GCC unroll 8
        for (size_t r = 0; r < 8; ++r) {
            to[2 * r] = interleave_low(from[r], from[r + 8]);
            to[2 * r + 1] = interleave_high(from[r], from[r + 8]);
        }
    }

    // to[c * to_stride + r] = from[r * from_stride + c] for 16 rows and 16 columns. Four rounds of
    // interleaving make the number of a row the number of its column.
    static void transpose(const uint8_t* from, size_t from_stride, uint8_t* to, size_t to_stride) {
        u8 a[16], b[16];
#pragma GCC unroll 16
        for (size_t r = 0; r < 16; ++r) a[r] = load(from + r * from_stride);
        interleave_rows(a, b);
        interleave_rows(b, a);
        interleave_rows(a, b);
        interleave_rows(b, a);
#pragma GCC unroll 16
        for (size_t r = 0; r < 16; ++r) store(to + r * to_stride, a[r]);
    }
};

}  // namespace quire::codec
