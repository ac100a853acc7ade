// Arithmetic on CRC-32C as polynomials over GF(2), for building tables at compile time.
//
// Bit-reflected: bit 31 of a word is the coefficient of x^0. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quire::crc32c_detail {

inline constexpr uint32_t kPolynomial = 0x82f63b78;

// a * x mod P.
constexpr uint32_t times_x(uint32_t a) {
    return (a & 1) != 0 ? (a >> 1) ^ kPolynomial : a >> 1;
}

// a * b mod P.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
        if ((a & bit) != 0) product ^= b;
        b = times_x(b);
    }
    return product;
}

// x^(8 * bytes) mod P: multiplying a CRC register by it feeds in that many zero bytes.
constexpr uint32_t zeros_operator(size_t bytes) {
    uint32_t result = 1u << 31;
    uint32_t square = 1u << 23;  // x^8
    for (; bytes != 0; bytes >>= 1) {
        if ((bytes & 1) != 0) result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

// Feeds a fixed number of zero bytes into a register by four look-ups.
class ZerosTable {
 public:
    explicit constexpr ZerosTable(size_t bytes) {
        const uint32_t op = zeros_operator(bytes);
        for (size_t byte = 0; byte < 4; ++byte) {
            for (uint32_t bit = 0; bit < 8; ++bit)
                rows_[byte][1u << bit] = multiply(op, 1u << (8 * byte + bit));
            for (uint32_t v = 1; v < 256; ++v)
                rows_[byte][v] = rows_[byte][v & (v - 1)] ^ rows_[byte][v & (~v + 1)];
        }
    }
    constexpr uint32_t apply(uint32_t crc) const {
        return rows_[0][crc & 255] ^ rows_[1][(crc >> 8) & 255] ^ rows_[2][(crc >> 16) & 255] ^
               rows_[3][crc >> 24];
    }

 private:
    std::array<std::array<uint32_t, 256>, 4> rows_{};
};

// rows[k][v]: the register after byte v and k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> slicing_tables() {
    std::array<std::array<uint32_t, 256>, 8> rows{};
    for (uint32_t v = 0; v < 256; ++v) {
        uint32_t crc = v;
        for (int bit = 0; bit < 8; ++bit) crc = times_x(crc);
        rows[0][v] = crc;
    }
    for (size_t k = 1; k < 8; ++k)
        for (uint32_t v = 0; v < 256; ++v)
            rows[k][v] = (rows[k - 1][v] >> 8) ^ rows[0][rows[k - 1][v] & 255];
    return rows;
}

}  // namespace quire::crc32c_detail
