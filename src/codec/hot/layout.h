// Where every code and scale of a hot page lies. Pure constexpr functions, for the codec, for
// attention over codes and for tests.
//
// A page of T tokens and D dimensions, without padding, is
//
//   [K planes][V planes][K scales: T bytes][V scales: T bytes]
//
// Codes come as *rows* of 16 lanes. K is dim-major: row (token / 16) * D + dim, lane token % 16, so
// that attention adds up 16 keys without a horizontal sum. V is token-major: row token * (D / 16) +
// dim / 16, lane dim % 16. Both have T * D / 16 rows, and 16 tokens always own whole bytes.
//
// A code of b bits is cut into planes, the highest bits first: 8 = {8}, 7 = {4, 2, 1}, 6 = {4, 2},
// 5 = {4, 1}, 4 = {4}, 3 = {2, 1}, 2 = {2}. A plane of w bits keeps 8 / w rows in 16 bytes: row r
// has its bits at (r % (8 / w)) * w of bytes (r / (8 / w)) * 16 to + 15, a byte a lane. The rows of
// a plane follow each other, then comes the next plane.
//
// Every part begins at a multiple of 32 bytes, so that a load of one row never straddles a cache
// line. Functions are always inlined: files of several instruction sets use them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::codec::hot {

inline constexpr uint32_t kLanes = 16;
inline constexpr int kMinBits = 2;
inline constexpr int kMaxBits = 8;

struct Planes {
    int count;
    int width[3];  // highest bits of the code first
};

[[gnu::always_inline]] constexpr Planes planes_of(int bits) {
    switch (bits) {
        case 8:
            return {1, {8, 0, 0}};
        case 7:
            return {3, {4, 2, 1}};
        case 6:
            return {2, {4, 2, 0}};
        case 5:
            return {2, {4, 1, 0}};
        case 4:
            return {1, {4, 0, 0}};
        case 3:
            return {2, {2, 1, 0}};
        default:
            return {1, {2, 0, 0}};
    }
}

// How far a plane's bits sit above the code's lowest.
[[gnu::always_inline]] constexpr int plane_shift(int bits, int plane) {
    const Planes p = planes_of(bits);
    int below = 0;
    for (int i = plane + 1; i < p.count; ++i) below += p.width[i];
    return below;
}

// Rows that share 16 bytes of a plane.
[[gnu::always_inline]] constexpr uint32_t rows_per_vector(int width) {
    return 8 / static_cast<uint32_t>(width);
}

struct Shape {
    int k_bits;
    int v_bits;
    uint32_t head_dim;
    uint32_t tokens;
};

[[gnu::always_inline]] constexpr size_t side_rows(const Shape& s) {
    return size_t{s.tokens} * s.head_dim / kLanes;
}
[[gnu::always_inline]] constexpr size_t plane_bytes(const Shape& s, int width) {
    return side_rows(s) * kLanes * static_cast<size_t>(width) / 8;
}
[[gnu::always_inline]] constexpr size_t side_bytes(const Shape& s, int bits) {
    return plane_bytes(s, bits);
}

// From the first byte of a side to its plane.
[[gnu::always_inline]] constexpr size_t plane_offset(const Shape& s, int bits, int plane) {
    const Planes p = planes_of(bits);
    size_t offset = 0;
    for (int i = 0; i < plane; ++i) offset += plane_bytes(s, p.width[i]);
    return offset;
}

// Parts, from the first byte of the page.
[[gnu::always_inline]] constexpr size_t k_offset(const Shape&) {
    return 0;
}
[[gnu::always_inline]] constexpr size_t v_offset(const Shape& s) {
    return side_bytes(s, s.k_bits);
}
[[gnu::always_inline]] constexpr size_t k_scales_offset(const Shape& s) {
    return v_offset(s) + side_bytes(s, s.v_bits);
}
[[gnu::always_inline]] constexpr size_t v_scales_offset(const Shape& s) {
    return k_scales_offset(s) + s.tokens;
}
[[gnu::always_inline]] constexpr size_t page_bytes(const Shape& s) {
    return v_scales_offset(s) + s.tokens;
}

struct Place {
    size_t row;
    uint32_t lane;
};
[[gnu::always_inline]] constexpr Place k_place(const Shape& s, uint32_t token, uint32_t dim) {
    return {size_t{token} / kLanes * s.head_dim + dim, token % kLanes};
}
[[gnu::always_inline]] constexpr Place v_place(const Shape& s, uint32_t token, uint32_t dim) {
    return {size_t{token} * (s.head_dim / kLanes) + dim / kLanes, dim % kLanes};
}

// The byte of a plane that holds a code's bits, and where in it they begin.
[[gnu::always_inline]] constexpr size_t byte_in_plane(int width, const Place& place) {
    return place.row / rows_per_vector(width) * kLanes + place.lane;
}
[[gnu::always_inline]] constexpr int bit_in_byte(int width, const Place& place) {
    return static_cast<int>(place.row % rows_per_vector(width)) * width;
}

static_assert(page_bytes({8, 8, 64, 16}) == 2 * 16 * 64 + 32);
static_assert(page_bytes({4, 3, 80, 16}) == 16 * 80 * 7 / 8 + 32);
static_assert(plane_shift(7, 0) == 3 && plane_shift(7, 1) == 1 && plane_shift(7, 2) == 0);

}  // namespace quire::codec::hot
