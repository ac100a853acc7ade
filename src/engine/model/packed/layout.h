// How a weight matrix lies in memory for our own products: 16 outputs interleaved.
//
// ggml multiplies one output at a time and unpacks the same codes again for every row. Here one
// 64-byte vector holds 4 inputs of 16 outputs, so that codes are unpacked once for up to 8 rows and
// no sum crosses lanes. A group is 16 outputs over all inputs:
//
//   scales  per 32 inputs (kinds d, dm) or per 256 (kinds k, k6), padded to 64 bytes
//   codes   per 32 inputs: 4-bit parts 256 bytes, then planes of higher bits; or 8-bit codes
//
// Vector v of a block's codes holds inputs 4v, 4v+2, 4v+1, 4v+3 of output 0, then of output 1, and
// so on: its even bytes are then the pairs (4v, 4v+1) of 16-bit arithmetic, its odd ones (4v+2,
// 4v+3).
//   4 bits   byte vectors 0..3: low nibbles are code vectors 0..3, high nibbles 4..7
//   5 bits   the same, then one vector whose bit v is the top bit of code vector v
//   6 bits   the same, then two vectors; bits 2j..2j+1 of vector p are the top of code vector 4p+j
//   8 bits   byte vectors 0..7 are the code vectors
// A weight is  d (code - offset)  or  d code + m; what d and m are, the kind says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::packed {

inline constexpr int64_t kOutputs = 16;  // of a group
inline constexpr int64_t kInputs = 32;   // of a block
inline constexpr int64_t kSuperInputs = 256;
inline constexpr int kCodeVectors = 8;
inline constexpr size_t kVectorBytes = 64;

// Functions that files of several instruction sets call are always inlined: a shared copy might be
// the one compiled for the largest.
enum class Scales : uint8_t {
    d,   // per block: 16 float16 d
    dm,  // per block: 16 float16 d, 16 float16 m
    k,   // per 256: 16 float16 D, 16 float16 M; then per block 16 uint8 s, 16 uint8 t:
         // d = D s, m = -M t
    k6,  // per 256: 16 float16 D, 32 bytes of nothing; then per block 16 int8 s for inputs 0..15
         // and 16 for inputs 16..31: d = D s
};

struct Layout {
    int bits = 0;  // 4, 5, 6 or 8
    int offset = 0;
    Scales scales = Scales::d;

    friend constexpr bool operator==(const Layout&, const Layout&) = default;
};

[[gnu::always_inline]] constexpr int64_t blocks_of(int64_t n_in) {
    return n_in / kInputs;
}
[[gnu::always_inline]] constexpr size_t code_block_bytes(int bits) {
    return static_cast<size_t>(bits) * kVectorBytes;
}
[[gnu::always_inline]] constexpr size_t super_bytes() {
    return 64 + 8 * 32;
}
[[gnu::always_inline]] constexpr size_t scales_bytes(const Layout& l, int64_t n_in) {
    const auto blocks = static_cast<size_t>(blocks_of(n_in));
    switch (l.scales) {
        case Scales::d:
            return (blocks * 32 + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
        case Scales::dm:
            return blocks * 64;
        case Scales::k:
        case Scales::k6:
            return blocks / 8 * super_bytes();
    }
    return 0;
}
[[gnu::always_inline]] constexpr size_t group_bytes(const Layout& l, int64_t n_in) {
    return scales_bytes(l, n_in) + static_cast<size_t>(blocks_of(n_in)) * code_block_bytes(l.bits);
}

}  // namespace quire::packed
