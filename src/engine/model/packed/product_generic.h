// The product over vectors of V::kLanes outputs; an ISA brings V and instantiates multiply<V>.
//
// An ISA multiplies 4 inputs of V::kLanes outputs at a time, without crossing lanes: VNNI's
// products of bytes take the two planes of a row's values apart, AVX2's products of 16-bit pairs
// the even and the odd bytes of the codes.
//
// Measured (AVX-512 VNNI, one core of an Emerald Rapids): 4-bit weights in L2 pass at 40 GB/s with
// one row and are multiplied by 8 rows at 120 GMAC/s. From memory, where a plain read gives 17
// GB/s, one row takes 10.7 GB/s without prefetches, 12.1, 13.0, 13.9, 13.8 with prefetches into L1
// 1, 2, 4 and 8 KiB ahead (8-bit weights: 13.1, then 15.5 at 4 KiB); prefetches into L2 gain
// nothing.
#pragma once

#include <algorithm>

#include "base/prefetch.h"
#include "engine/model/packed/product.h"
#include "engine/model/packed/rows.h"

namespace quire::packed::generic {

// Code vector v of a block; `codes` already points at this vector's lanes.
template <class V, int kBits>
[[gnu::always_inline]] inline typename V::Int code_vector(const std::byte* codes, int v) {
    if constexpr (kBits == 8) {
        return V::load(codes + 64 * v);
    } else {
        const typename V::Int raw = V::load(codes + 64 * (v & 3));
        const typename V::Int low = V::bits_and(v < 4 ? raw : V::shift_right(raw, 4), 0x0f);
        if constexpr (kBits == 4) return low;
        if constexpr (kBits == 5) {
            const typename V::Int plane = V::load(codes + 256);
            const typename V::Int top =
                v < 4 ? V::shift_left(plane, 4 - v) : V::shift_right(plane, v - 4);
            return V::bits_or(low, V::bits_and(top, 0x10));
        }
        if constexpr (kBits == 6) {
            const typename V::Int plane = V::load(codes + 256 + 64 * (v >> 2));
            const int j = 2 * (v & 3);
            const typename V::Int top =
                j < 4 ? V::shift_left(plane, 4 - j) : V::shift_right(plane, j - 4);
            return V::bits_or(low, V::bits_and(top, 0x30));
        }
    }
}

// R rows of a tile, and the sums of V::kLanes outputs for each.
template <class V, Layout kLayout, int R>
struct Tile {
    using Int = typename V::Int;
    using Float = typename V::Float;

    Float acc[R];

    // acc += d (code - offset) value over code vectors [kFirst, kLast) of a block; `row` is the
    // block's record of the first row.
    template <int kFirst, int kLast>
    [[gnu::always_inline]] void add_product(const RowBlock* row, const std::byte* codes, Float d) {
        Int first[R];
        Int second[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const int32_t* values_sum =
                kLast - kFirst == kCodeVectors ? &row[r].whole_sum : &row[r].half_sums[kFirst / 4];
            const Int offset =
                kLayout.offset == 0
                    ? V::zero()
                    : V::sub(V::zero(),
                             V::template times_power<kLayout.offset>(V::set1(*values_sum)));
            V::start(offset, &first[r], &second[r]);
        }
#pragma GCC unroll 8
        for (int v = kFirst; v < kLast; ++v) {
            const typename V::Codes c = V::codes(code_vector<V, kLayout.bits>(codes, v));
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) V::dot(c, row[r], v, &first[r], &second[r]);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
            acc[r] = V::fma(V::mul(d, V::fset1(row[r].step)),
                            V::to_float(V::finish(first[r], second[r])), acc[r]);
    }

    [[gnu::always_inline]] void add_minimum(const RowBlock* row, Float m) {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) acc[r] = V::fma(m, V::fset1(row[r].sum), acc[r]);
    }

    // A block of one of the kinds with super-blocks; `scales` and `lane` as in multiply_rows.
    [[gnu::always_inline]] void add_k_block(int64_t b, const RowBlock* row, const std::byte* codes,
                                            const std::byte* scales, int lane) {
        const std::byte* super = scales + static_cast<size_t>(b / 8) * super_bytes();
        const std::byte* own = super - 2 * lane + 64 + b % 8 * 32 + lane;
        const Float d = V::load_half(super);
        if constexpr (kLayout.scales == Scales::k) {
            add_product<0, 8>(row, codes, V::mul(d, V::load_u8(own)));
            add_minimum(row, V::negate(V::mul(V::load_half(super + 32), V::load_u8(own + 16))));
        } else {
            add_product<0, 4>(row, codes, V::mul(d, V::load_i8(own)));
            add_product<4, 8>(row, codes, V::mul(d, V::load_i8(own + 16)));
        }
    }
};

// The CPU's own prefetcher stops at each 4 KiB page.
template <class V, Layout kLayout>
[[gnu::always_inline]] inline void fetch_ahead(const std::byte* scales, const std::byte* codes) {
    constexpr int64_t kAheadBytes = 4096;
    for (size_t line = 0; line < code_block_bytes(kLayout.bits); line += kVectorBytes)
        prefetch_l1(codes + kAheadBytes + line);
    prefetch_l1(scales + kAheadBytes);
}

// R rows from `slot` on times V::kLanes outputs from `lane` of the group on.
template <class V, Layout kLayout, int R>
void multiply_rows(const Product& p, int32_t slot, int lane) {
    Tile<V, kLayout, R> tile;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) tile.acc[r] = V::fzero();
    const std::byte* scales = p.group + 2 * lane;
    const std::byte* codes = p.group + scales_bytes(kLayout, p.n_in) + 4 * lane;
    const RowBlock* row = &row_block(p.tile, 0, slot);
    const int64_t blocks = blocks_of(p.n_in);
    for (int64_t b = 0; b < blocks; ++b) {
        if (lane == 0) fetch_ahead<V, kLayout>(scales + b * kInputs, codes);
        if constexpr (kLayout.scales == Scales::d) {
            tile.template add_product<0, 8>(row, codes, V::load_half(scales + b * 32));
        } else if constexpr (kLayout.scales == Scales::dm) {
            tile.template add_product<0, 8>(row, codes, V::load_half(scales + b * 64));
            tile.add_minimum(row, V::load_half(scales + b * 64 + 32));
        } else {
            tile.add_k_block(b, row, codes, scales, lane);
        }
        row += kTileRows;
        codes += code_block_bytes(kLayout.bits);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) V::store(p.out + (slot + r) * p.out_stride + lane, tile.acc[r]);
}

template <class V, Layout kLayout>
void multiply_layout(const Product& p) {
    for (int lane = 0; lane < kOutputs; lane += V::kLanes) {
        int32_t r = 0;
        for (; r + V::kMaxRows <= p.n_rows; r += V::kMaxRows)
            multiply_rows<V, kLayout, V::kMaxRows>(p, r, lane);
        if constexpr (V::kMaxRows > 4)
            for (; r + 4 <= p.n_rows; r += 4) multiply_rows<V, kLayout, 4>(p, r, lane);
        for (; r + 2 <= p.n_rows; r += 2) multiply_rows<V, kLayout, 2>(p, r, lane);
        for (; r < p.n_rows; ++r) multiply_rows<V, kLayout, 1>(p, r, lane);
    }
}

template <class V>
void multiply(const Product& p) {
    switch (p.layout.scales) {
        case Scales::d:
            if (p.layout.bits == 4) return multiply_layout<V, Layout{4, 8, Scales::d}>(p);
            if (p.layout.bits == 5) return multiply_layout<V, Layout{5, 16, Scales::d}>(p);
            return multiply_layout<V, Layout{8, 128, Scales::d}>(p);
        case Scales::dm:
            if (p.layout.bits == 4) return multiply_layout<V, Layout{4, 0, Scales::dm}>(p);
            return multiply_layout<V, Layout{5, 0, Scales::dm}>(p);
        case Scales::k:
            if (p.layout.bits == 4) return multiply_layout<V, Layout{4, 0, Scales::k}>(p);
            return multiply_layout<V, Layout{5, 0, Scales::k}>(p);
        case Scales::k6:
            return multiply_layout<V, Layout{6, 32, Scales::k6}>(p);
    }
}

}  // namespace quire::packed::generic
