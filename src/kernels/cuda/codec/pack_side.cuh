// A group's codes from shared memory into the bit planes of a page, by all threads of a block.
//
// Codes of tokens that are not written stay. K has a byte for every token alone. V's bytes hold
// codes of two tokens where a token has no whole number of rows of a plane (head_dim 80 with 4
// bits, 64 with a plane of 1): its words are joined by atomic operations then, so that whoever
// writes the group's other tokens at the same time loses nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/hot/layout.h"

namespace quire::kernels::cuda {

// [token][dim] of the 16 tokens of a group. `written`: bit t, token t is to be stored.
template <int kHeadDim>
struct GroupCodes {
    const uint8_t* codes;
    uint32_t written;
};

// Four codes of row `row` of the plane's numbering, at lanes lane to lane + 3, a byte each; and
// 0xff for each that is written.
template <int kHeadDim, bool kDimMajor>
__device__ inline void four_codes(const GroupCodes<kHeadDim>& group, uint32_t row, uint32_t lane,
                                  uint32_t* codes, uint32_t* mask) {
    if constexpr (kDimMajor) {
        uint32_t word = 0, bytes = 0;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            word |= uint32_t{group.codes[(lane + i) * kHeadDim + row]} << (8 * i);
            bytes |= (group.written >> (lane + i) & 1 ? 0xffu : 0u) << (8 * i);
        }
        *codes = word;
        *mask = bytes;
    } else {
        const uint32_t at = row * codec::hot::kLanes + lane;
        *codes = *reinterpret_cast<const uint32_t*>(group.codes + at);
        *mask = group.written >> (at / kHeadDim) & 1 ? 0xffffffffu : 0u;
    }
}

template <bool kDimMajor>
__device__ inline void store_word(uint32_t* at, uint32_t bits, uint32_t mask) {
    if (mask == 0xffffffffu) {
        *at = bits;
    } else if constexpr (kDimMajor) {
        auto* bytes = reinterpret_cast<uint8_t*>(at);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
            if (mask >> (8 * i) & 0xff) bytes[i] = static_cast<uint8_t>(bits >> (8 * i));
    } else if (mask != 0) {
        atomicAnd(at, ~mask);
        atomicOr(at, bits & mask);
    }
}

template <int kHeadDim, bool kDimMajor, int kWidth, int kShift>
__device__ inline void pack_plane(const GroupCodes<kHeadDim>& group, std::byte* plane) {
    constexpr uint32_t kRows = codec::hot::rows_per_vector(kWidth);
    constexpr uint32_t kWords = kHeadDim * codec::hot::kLanes * kWidth / 32;
    constexpr uint32_t kMask = ((1u << kWidth) - 1) * 0x01010101u;
    for (uint32_t word = threadIdx.x; word < kWords; word += blockDim.x) {
        uint32_t bits = 0, mask = 0;
#pragma unroll
        for (uint32_t j = 0; j < kRows; ++j) {
            uint32_t codes = 0, bytes = 0;
            four_codes<kHeadDim, kDimMajor>(group, word / 4 * kRows + j, word % 4 * 4, &codes,
                                            &bytes);
            bits |= (codes >> kShift & kMask) << (j * kWidth);
            mask |= (bytes & kMask) << (j * kWidth);
        }
        store_word<kDimMajor>(reinterpret_cast<uint32_t*>(plane) + word, bits, mask);
    }
}

// `side`: first byte of the page's side; `index`: which of the page's groups it is.
template <int kHeadDim, bool kDimMajor, int kBits, int kPlane = 0>
__device__ inline void pack_side(const GroupCodes<kHeadDim>& group, const codec::hot::Shape& shape,
                                 uint32_t index, std::byte* side) {
    constexpr int kWidth = codec::hot::planes_of(kBits).width[kPlane];
    constexpr size_t kGroupBytes = size_t{kHeadDim} * codec::hot::kLanes * kWidth / 8;
    pack_plane<kHeadDim, kDimMajor, kWidth, codec::hot::plane_shift(kBits, kPlane)>(
        group, side + codec::hot::plane_offset(shape, kBits, kPlane) + index * kGroupBytes);
    if constexpr (kPlane + 1 < codec::hot::planes_of(kBits).count)
        pack_side<kHeadDim, kDimMajor, kBits, kPlane + 1>(group, shape, index, side);
}

}  // namespace quire::kernels::cuda
