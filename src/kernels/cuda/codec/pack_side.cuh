// A group's codes from shared memory into the bit planes of a page, by the 64 threads that made
// them.
//
// Codes of tokens that are not written stay. K has a byte for every token alone. V's bytes hold
// codes of two tokens where a token has no whole number of rows of a plane (head_dim 80 with 4
// bits, 64 with a plane of 1): its words are joined by atomic operations then, so that whoever
// writes the group's other tokens at the same time loses nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/hot/layout.h"
#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/codec/runs.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kPairThreads = 64;

// Codes of 16 tokens, a byte each, as the rows of 16 lanes that planes are made of. V's rows of a
// token are followed by a gap, so that tokens lie in different banks.
template <int kHeadDim, bool kDimMajor>
struct GroupCodes {
    static constexpr uint32_t kTokenBytes = kHeadDim + 16;
    uint8_t* bytes;
    uint32_t written;  // bit t, token t is to be stored

    __device__ __forceinline__ uint32_t row_at(uint32_t row) const {
        constexpr uint32_t kRows = kHeadDim / 16;
        return kDimMajor ? row * 16 : row / kRows * kTokenBytes + row % kRows * 16;
    }
    // Numbers 16v + 8 half + 2t and the one after it of a token; only their lowest bytes count.
    __device__ __forceinline__ void put(uint32_t token, int v, int half, int32_t a,
                                        int32_t b) const {
        const uint32_t dim = static_cast<uint32_t>(16 * v + 8 * half) + 2 * (lane_of_warp() % 4);
        if constexpr (kDimMajor) {
            bytes[dim * 16 + token] = static_cast<uint8_t>(a);
            bytes[dim * 16 + 16 + token] = static_cast<uint8_t>(b);
        } else {
            *reinterpret_cast<uint16_t*>(bytes + token * kTokenBytes + dim) = static_cast<uint16_t>(
                __byte_perm(static_cast<uint32_t>(a), static_cast<uint32_t>(b), 0x0040));
        }
    }
    // The thread's codes of a token become 0.
    __device__ __forceinline__ void clear(uint32_t token) const {
#pragma unroll 1
        for (int i = 0; i < kHeadDim / 8; ++i) put(token, i / 2, i % 2, 0, 0);
    }
    // Which bits of lanes `lane` to lane + 3 of a row are to be stored.
    __device__ __forceinline__ uint32_t mask(uint32_t row, uint32_t lane) const {
        if constexpr (!kDimMajor) return written >> (row / (kHeadDim / 16)) & 1 ? 0xffffffffu : 0u;
        uint32_t mask = 0;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
            mask |= (written >> (lane + i) & 1 ? 0xffu : 0u) << (8 * i);
        return mask;
    }
};

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

// Sixteen bytes of a plane at a time; `thread`: of the 64.
template <int kHeadDim, bool kDimMajor, int kBits, int kPlane>
__device__ __forceinline__ void pack_plane(const GroupCodes<kHeadDim, kDimMajor>& group,
                                           uint32_t thread, std::byte* plane) {
    constexpr int kWidth = codec::hot::planes_of(kBits).width[kPlane];
    constexpr int kShift = codec::hot::plane_shift(kBits, kPlane);
    constexpr uint32_t kRows = codec::hot::rows_per_vector(kWidth);
    constexpr uint32_t kMask = ((1u << kWidth) - 1) * 0x01010101u;
    for (uint32_t i = thread; i < kHeadDim / kRows; i += kPairThreads) {
        uint32_t bits[4] = {};
#pragma unroll
        for (uint32_t j = 0; j < kRows; ++j) {
            const uint4 codes =
                *reinterpret_cast<const uint4*>(group.bytes + group.row_at(i * kRows + j));
            const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
            for (int w = 0; w < 4; ++w)
                bits[w] |= (kWidth == kBits ? words[w] : words[w] >> kShift & kMask)
                           << (j * kWidth);
        }
        auto* to = reinterpret_cast<uint32_t*>(plane + i * 16);
        if (group.written == 0xffff) {
            *reinterpret_cast<uint4*>(to) = make_uint4(bits[0], bits[1], bits[2], bits[3]);
            continue;
        }
#pragma unroll 1
        for (uint32_t w = 0; w < 4; ++w) {
            uint32_t mask = 0;
#pragma unroll
            for (uint32_t j = 0; j < kRows; ++j)
                mask |= (group.mask(i * kRows + j, w * 4) & kMask) << (j * kWidth);
            const uint32_t word = w == 0 ? bits[0] : w == 1 ? bits[1] : w == 2 ? bits[2] : bits[3];
            store_word<kDimMajor>(to + w, word, mask);
        }
    }
}

// `side`: first byte of a plane of a page of `tokens`, after which the others lie; `index`: which
// of the page's groups it is.
template <int kHeadDim, bool kDimMajor, int kBits, int kPlane = 0>
__device__ __forceinline__ void pack_side(const GroupCodes<kHeadDim, kDimMajor>& group,
                                          uint32_t thread, uint32_t tokens, uint32_t index,
                                          std::byte* side) {
    constexpr int kWidth = codec::hot::planes_of(kBits).width[kPlane];
    constexpr size_t kGroupBytes = size_t{kHeadDim} * codec::hot::kLanes * kWidth / 8;
    pack_plane<kHeadDim, kDimMajor, kBits, kPlane>(group, thread, side + index * kGroupBytes);
    if constexpr (kPlane + 1 < codec::hot::planes_of(kBits).count)
        pack_side<kHeadDim, kDimMajor, kBits, kPlane + 1>(group, thread, tokens, index,
                                                          side + tokens * (kHeadDim * kWidth / 8));
}

}  // namespace quire::kernels::cuda
