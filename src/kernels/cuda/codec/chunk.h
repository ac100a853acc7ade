// How 32 tokens of hot pages lie in shared memory, and which words of them a thread reads. The same
// code on CPU and GPU.
//
// A chunk is 32 tokens of one KV head, two groups of 16, in a slot:
//
//   [K planes][V planes][K scales: 32 bytes][V scales: 32 bytes]
//
// A plane is that of codec/hot/layout.h in vectors of 16 bytes, but every eight vectors are
// permuted by exclusive-or, so that a warp's words lie in banks of their own. K has its groups one
// after the other, each padded to eight vectors; V has 32 tokens in a row.
//
// Lane 4g + t of a warp reads, a word of four bytes at a time:
//
// - K: tokens first_token(g) to + 3, one in each byte; in step s the dimensions 16 s + 4t to + 3.
//   Of the matrix product they are rows g and g + 8 of two tiles of tokens; columns 2t, 2t + 1 are
//   the first two dimensions, 2t + 8, 2t + 9 the other two.
// - V: tokens 8t to + 7; in part i the dimensions value_dim(g, i, 0 to 3), one in each byte, and
//   those 16 above. Of the product they are rows g and g + 8 of tile 4 i + b; tokens k and k + 4
//   are columns 2t, 2t + 1 (k even) or 2t + 8, 2t + 9 (k odd) of product k / 2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "codec/hot/layout.h"

namespace quire::kernels::cuda {

inline constexpr uint32_t kChunkTokens = 32;
inline constexpr uint32_t kVectorBytes = 16;

QUIRE_HOST_DEVICE constexpr uint32_t first_token(uint32_t g) {
    return g / 4 * 16 + g % 4 * 4;
}

template <uint32_t kHeadDim>
struct ChunkMap {
    static_assert(kHeadDim % 32 == 0);
    static constexpr uint32_t kSteps = kHeadDim / 16;
    // Pairs of 16 dimensions that a lane reads; of the last one there may be nothing.
    static constexpr uint32_t kParts = (kHeadDim + 63) / 64;
    static constexpr bool kPowerOfTwo = (kHeadDim & (kHeadDim - 1)) == 0;

    // Vectors of a group of 16 tokens, of one side and one plane of w bits; what they take here.
    static QUIRE_HOST_DEVICE constexpr uint32_t group_vectors(uint32_t w) {
        return kHeadDim * w / 8;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t group_stride(uint32_t w) {
        return (group_vectors(w) + 7) / 8 * 8;
    }
    // Bytes before a plane of a side; before the one after the last: of all.
    static QUIRE_HOST_DEVICE constexpr uint32_t plane_at(int bits, int plane) {
        uint32_t vectors = 0;
        for (int i = 0; i < plane; ++i)
            vectors +=
                2 * group_stride(static_cast<uint32_t>(codec::hot::planes_of(bits).width[i]));
        return vectors * kVectorBytes;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t side_bytes(int bits) {
        return plane_at(bits, codec::hot::planes_of(bits).count);
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t k_scales_at(int k_bits, int v_bits) {
        return side_bytes(k_bits) + side_bytes(v_bits);
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t v_scales_at(int k_bits, int v_bits) {
        return k_scales_at(k_bits, v_bits) + kChunkTokens;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t slot_bytes(int k_bits, int v_bits) {
        return (v_scales_at(k_bits, v_bits) + kChunkTokens + 127) / 128 * 128;
    }

    // Where vector v of a group's plane lies in the plane, in vectors.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_place(uint32_t w, uint32_t v, uint32_t group) {
        const uint32_t swap = w == 8 ? (v >> 3 & 1) ^ group << 1 : w == 4 ? group : group << 2;
        return group * group_stride(w) + (v ^ swap);
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t v_place(uint32_t w, uint32_t v) {
        return v ^ v_swap(w, v / tokens8(w)) ^ (high_swap(w) ? (v >> 3 & 1) << 2 : 0);
    }

    // The word with rows of dimensions 16 step + 4t to + 3; j: which one of them where they are in
    // several, 8 / w dimensions in each.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_word(uint32_t w, uint32_t g, uint32_t t,
                                                       uint32_t step, uint32_t j) {
        // A lane's part and a constant one, which have no bit in common.
        const uint32_t lane = k_place(w, 4 * t * w / 8, g / 4);
        const uint32_t rest = 16 * step * w / 8 + j;
        return ((lane ^ (rest & 7)) + (rest & ~7u)) * kVectorBytes + g % 4 * 4;
    }
    // How far dimension 16 step + 4t is up in each byte of its word.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_shift(uint32_t w, uint32_t t) {
        return w == 1 ? 4 * (t & 1) : 0;
    }

    static QUIRE_HOST_DEVICE constexpr uint32_t pair_of(uint32_t g, uint32_t i) {
        return g / 4 * kParts + i;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t value_dim(uint32_t g, uint32_t i, uint32_t b) {
        return pair_of(g, i) * 32 + g % 4 * 4 + b;
    }
    // Is there such a pair? Lanes without one read another's, and nobody looks at what comes out.
    static QUIRE_HOST_DEVICE constexpr bool has_part(uint32_t g, uint32_t i) {
        return pair_of(g, i) * 32 < kHeadDim;
    }
    // The row of token 8t + k and the first 16 dimensions of part i, counted from token 8t.
    static QUIRE_HOST_DEVICE constexpr uint32_t v_row(uint32_t g, uint32_t k, uint32_t i) {
        return k * (kHeadDim / 16) + (has_part(g, i) ? 2 * pair_of(g, i) : 0);
    }
    // The word with that row; j = 1: with the one after it, where that is in another (w == 8).
    static QUIRE_HOST_DEVICE constexpr uint32_t v_word(uint32_t w, uint32_t g, uint32_t t,
                                                       uint32_t k, uint32_t i, uint32_t j) {
        const uint32_t rows = 8 / w;
        uint32_t place = 0;
        if constexpr (kPowerOfTwo) {
            const uint32_t lane = v_place(w, t * tokens8(w) + (g / 4 * kParts * 2) / rows);
            const uint32_t rest = (k * (kHeadDim / 16) + 2 * i) / rows + j;
            place = (lane ^ (rest & 7)) + (rest & ~7u);
        } else {
            place = v_place(w, t * tokens8(w) + v_row(g, k, i) / rows + j);
        }
        return place * kVectorBytes + g % 4 * 4;
    }
    // How far that row is up in each byte of its word.
    static QUIRE_HOST_DEVICE constexpr uint32_t v_shift(uint32_t w, uint32_t g, uint32_t k,
                                                        uint32_t i) {
        if constexpr (kPowerOfTwo && kParts % 2 == 0)  // g makes no difference, if w is 4 or 2
            if (w > 1) return (k * (kHeadDim / 16) + 2 * i) % (8 / w) * w;
        return v_row(g, k, i) % (8 / w) * w;
    }

 private:
    // Vectors of eight tokens of V.
    static QUIRE_HOST_DEVICE constexpr uint32_t tokens8(uint32_t w) { return kHeadDim * w / 16; }
    // Vectors from a lane's to that of lane + 16, which must not be swapped onto each other.
    static QUIRE_HOST_DEVICE constexpr uint32_t half_stride(uint32_t w) { return kParts * w / 4; }
    static QUIRE_HOST_DEVICE constexpr bool high_swap(uint32_t w) {
        return half_stride(w) % 8 == 0 && half_stride(w) > 0;
    }
    // Four lanes t, which are eight tokens apart, in vectors whose banks differ.
    static QUIRE_HOST_DEVICE constexpr uint32_t v_swap(uint32_t w, uint32_t t) {
        const uint32_t stride = half_stride(w);
        const uint32_t low = stride == 1 ? 2 : stride == 3 ? 4 : 1;
        const uint32_t high = stride == 1 || stride == 2 ? 4 : stride == 3 ? 1 : 2;
        return (t & 1) * low ^ (t >> 1 & 1) * high;
    }
};

// What lane `lane` brings of one side of a chunk: copy(group, to, from) for each of its vectors.
// to: byte in the side's slot; from: byte of the side in the page of a group, of which `index` says
// which one of that page it is. block_tokens: of a page.
template <uint32_t kHeadDim, int kBits, bool kKeys, int kPlane = 0, class Copy>
QUIRE_HOST_DEVICE inline void copy_side(uint32_t lane, uint32_t block_tokens,
                                        const uint32_t (&index)[2], Copy copy) {
    using Map = ChunkMap<kHeadDim>;
    constexpr uint32_t kWidth = codec::hot::planes_of(kBits).width[kPlane];
    constexpr uint32_t kEach = Map::group_vectors(kWidth);
    constexpr int kBefore = kBits - codec::hot::plane_shift(kBits, kPlane) - int{kWidth};
    constexpr uint32_t kPlaneAt = Map::plane_at(kBits, kPlane);
    const uint32_t plane = block_tokens * (kHeadDim * kBefore / 8);
    QUIRE_UNROLL(32)
    for (uint32_t first = 0; first < 2 * kEach; first += 32) {
        const uint32_t at = first + lane;
        if (2 * kEach % 32 != 0 && at >= 2 * kEach) continue;
        const uint32_t group = kEach % 32 == 0 ? first / kEach : static_cast<uint32_t>(at >= kEach);
        const uint32_t v = at - group * kEach;
        const uint32_t place = kKeys ? Map::k_place(kWidth, v, group) : Map::v_place(kWidth, at);
        copy(group, kPlaneAt + place * kVectorBytes,
             plane + ((group == 0 ? index[0] : index[1]) * kEach + v) * kVectorBytes);
    }
    if constexpr (kPlane + 1 < codec::hot::planes_of(kBits).count)
        copy_side<kHeadDim, kBits, kKeys, kPlane + 1>(lane, block_tokens, index, copy);
}

}  // namespace quire::kernels::cuda
