// How 32 tokens of hot pages lie in shared memory, and which words of them a thread reads. The same
// code on CPU and GPU.
//
// A chunk is 32 tokens of one KV head, two groups of 16, in a slot:
//
//   [K planes][V planes][K scales: 32 bytes][V scales: 32 bytes]
//
// A plane is that of codec/hot/layout.h in vectors of 16 bytes, in pieces: K in two, a group each,
// V in four, eight tokens each. Pieces begin at odds with each other, so that a warp's words lie in
// banks of their own; of 8 bits in two's.
//
// Lane 4g + t of a warp reads, a word of four bytes at a time:
//
// - K: tokens first_token(g) to + 3, one in each byte; in step s the dimensions k_dim(s, t, 0 to
//   3). Of the matrix product tokens are rows g and g + 8 of two tiles; columns 2t, 2t + 1 are the
//   first two dimensions, 2t + 8, 2t + 9 the other two.
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
// Column r of four of step s.
QUIRE_HOST_DEVICE constexpr uint32_t k_dim(int bits, uint32_t step, uint32_t t, uint32_t r) {
    return 16 * step + (bits == 8 ? 2 * t + r % 2 + r / 2 * 8 : 4 * t + r);
}

template <uint32_t kHeadDim>
struct ChunkMap {
    static_assert(kHeadDim % 16 == 0);
    static constexpr uint32_t kSteps = kHeadDim / 16;
    // Pairs of 16 dimensions that a lane reads; of the last one there may be nothing.
    static constexpr uint32_t kParts = (kHeadDim + 63) / 64;
    static constexpr bool kPowerOfTwo = (kHeadDim & (kHeadDim - 1)) == 0;
    // Both rows of a pair are in one vector, if their plane keeps several rows in one.
    static constexpr bool kPairsWhole = kHeadDim % 32 == 0;

    // Vectors of a piece of a plane of w bits.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_vectors(uint32_t w) { return kHeadDim * w / 8; }
    static QUIRE_HOST_DEVICE constexpr uint32_t v_vectors(uint32_t w) { return kHeadDim * w / 16; }
    static QUIRE_HOST_DEVICE constexpr uint32_t round8(uint32_t n) { return (n + 7) / 8 * 8; }

    // Where a piece begins in its plane, in vectors. With 8 bits an even one, although two words of
    // a warp then share a bank: copies that put half a sector of memory (32 bytes) into another row
    // of 32 bytes than its other half ask for it twice, and 8 bits need what the cache can give.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_piece(uint32_t w, uint32_t group) {
        return group * (round8(k_vectors(w)) + (w == 8 ? 2 : w == 4 ? 1 : 4));
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t v_piece(uint32_t w, uint32_t t) {
        // A lane's vector and that of lane + 16 are so far apart; the others' go in between.
        const uint32_t stride = kParts * w / 4;
        const uint32_t low = stride == 1 || w == 8 ? 2 : 1;
        const uint32_t high = w == 8 || (stride <= 3 && stride > 0) ? 4 : 2;
        return t * round8(v_vectors(w)) + (t & 1) * low + (t >> 1) * high;
    }
    // Bytes before a plane of a side; before the one after the last: of all.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_plane(int bits, int plane) {
        uint32_t vectors = 0;
        for (int i = 0; i < plane; ++i) vectors += 2 * round8(k_vectors(width_of(bits, i))) + 8;
        return vectors * kVectorBytes;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t v_plane(int bits, int plane) {
        uint32_t vectors = 0;
        for (int i = 0; i < plane; ++i) vectors += 4 * round8(v_vectors(width_of(bits, i))) + 8;
        return vectors * kVectorBytes;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t v_at(int k_bits) {
        return k_plane(k_bits, codec::hot::planes_of(k_bits).count);
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t scales_at(int k_bits, int v_bits) {
        return v_at(k_bits) + v_plane(v_bits, codec::hot::planes_of(v_bits).count);
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t slot_bytes(int k_bits, int v_bits) {
        return scales_at(k_bits, v_bits) + 2 * kChunkTokens;
    }

    // The word with dimensions k_dim(step, t, r), r = j * 8 / w and so on.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_word(uint32_t w, uint32_t g, uint32_t t,
                                                       uint32_t step, uint32_t j) {
        const uint32_t lane = k_piece(w, g / 4) + (w == 8 ? 2 * t : 4 * t * w / 8);
        const uint32_t rest = 16 * step * w / 8 + (w == 8 ? j % 2 + j / 2 * 8 : j);
        return (lane + rest) * kVectorBytes + g % 4 * 4;
    }
    // How far dimension k_dim(step, t, 0) is up in each byte of its word.
    static QUIRE_HOST_DEVICE constexpr uint32_t k_shift(uint32_t w, uint32_t t) {
        return w == 1 ? 4 * (t & 1) : 0;
    }

    static QUIRE_HOST_DEVICE constexpr uint32_t pair_of(uint32_t g, uint32_t i) {
        return g / 4 * kParts + i;
    }
    static QUIRE_HOST_DEVICE constexpr uint32_t value_dim(uint32_t g, uint32_t i, uint32_t b) {
        return pair_of(g, i) * 32 + g % 4 * 4 + b;
    }
    // Is there such a row j of a pair? Lanes without one read another's, and nobody looks at what
    // comes out.
    static QUIRE_HOST_DEVICE constexpr bool has_row(uint32_t g, uint32_t i, uint32_t j) {
        return pair_of(g, i) * 32 + j * 16 < kHeadDim;
    }
    // The row of token 8t + k and the first 16 dimensions of part i, counted from token 8t.
    static QUIRE_HOST_DEVICE constexpr uint32_t v_row(uint32_t g, uint32_t k, uint32_t i) {
        return k * (kHeadDim / 16) + (has_row(g, i, 0) ? 2 * pair_of(g, i) : 0);
    }
    // The word with that row; j = 1: with the one after it, which may be in another.
    static QUIRE_HOST_DEVICE constexpr uint32_t v_word(uint32_t w, uint32_t g, uint32_t t,
                                                       uint32_t k, uint32_t i, uint32_t j) {
        const uint32_t rows = 8 / w;
        // A lane's part and a constant one.
        const uint32_t lane = v_piece(w, t) + (kPowerOfTwo ? g / 4 * kParts * 2 / rows : 0);
        const uint32_t rest =
            ((kPowerOfTwo ? k * (kHeadDim / 16) + 2 * i : v_row(g, k, i)) + j) / rows;
        return (lane + rest) * kVectorBytes + g % 4 * 4;
    }
    // How far that row is up in each byte of its word.
    static QUIRE_HOST_DEVICE constexpr uint32_t v_shift(uint32_t w, uint32_t g, uint32_t k,
                                                        uint32_t i, uint32_t j = 0) {
        if constexpr (!kPairsWhole) return (v_row(g, k, i) + j) % (8 / w) * w;
        if constexpr (kPowerOfTwo && kParts % 2 == 0)  // g makes no difference, if w is 4 or 2
            if (w > 1) return (k * (kHeadDim / 16) + 2 * i) % (8 / w) * w + j * w;
        return v_row(g, k, i) % (8 / w) * w + j * w;
    }

    static QUIRE_HOST_DEVICE constexpr uint32_t width_of(int bits, int plane) {
        return static_cast<uint32_t>(codec::hot::planes_of(bits).width[plane]);
    }
};

// One vector that a lane copies: what all of a group's and plane's have in common, so that it is
// worked out once, and a constant.
struct VectorCopy {
    uint32_t group;        // of the chunk: 0 or 1
    uint32_t to;           // byte of the side in the slot
    uint32_t to_constant;  // beside it
    uint32_t from;         // byte of the side in the page, for the page's first group
    uint32_t from_constant;
    uint32_t step;  // from a group of the page to the next one
};

// Calls copy(VectorCopy) for the vectors of one side of a chunk that are lane `lane`'s. tokens: of
// a page.
template <uint32_t kHeadDim, int kBits, bool kKeys, int kPlane = 0, class Copy>
QUIRE_HOST_DEVICE inline void copy_side(uint32_t lane, uint32_t tokens, Copy copy) {
    using Map = ChunkMap<kHeadDim>;
    constexpr uint32_t kWidth = Map::width_of(kBits, kPlane);
    constexpr uint32_t kGroup = Map::k_vectors(kWidth);  // vectors; of V as many
    constexpr uint32_t kPiece = kKeys ? kGroup : Map::v_vectors(kWidth);
    constexpr uint32_t kPlaneAt = kKeys ? Map::k_plane(kBits, kPlane) : Map::v_plane(kBits, kPlane);
    constexpr uint32_t kBefore = static_cast<uint32_t>(
        kBits - codec::hot::plane_shift(kBits, kPlane) - static_cast<int>(kWidth));
    const uint32_t plane = tokens * (kHeadDim * kBefore / 8);
    const auto piece_at = [](uint32_t piece) {
        return kKeys ? Map::k_piece(kWidth, piece) : Map::v_piece(kWidth, piece);
    };
    QUIRE_UNROLL(32)
    for (uint32_t first = 0; first < 2 * kGroup; first += 32) {
        if constexpr (kPiece % 32 == 0) {  // pieces are whole warps': all is constant but the lane
            const uint32_t group = first / kGroup, piece = first / kPiece;
            copy(VectorCopy{group, lane * kVectorBytes,
                            kPlaneAt + (piece_at(piece) - piece * kPiece + first) * kVectorBytes,
                            plane + lane * kVectorBytes, (first - group * kGroup) * kVectorBytes,
                            kGroup * kVectorBytes});
        } else {
            const uint32_t at = first + lane;
            if (2 * kGroup % 32 != 0 && at >= 2 * kGroup) continue;
            const uint32_t piece = at / kPiece;
            const uint32_t group = kGroup % 32 == 0 ? first / kGroup : at / kGroup;
            copy(VectorCopy{group, (piece_at(piece) - piece * kPiece + at) * kVectorBytes, kPlaneAt,
                            plane + (at - group * kGroup) * kVectorBytes, 0,
                            kGroup * kVectorBytes});
        }
    }
    if constexpr (kPlane + 1 < codec::hot::planes_of(kBits).count)
        copy_side<kHeadDim, kBits, kKeys, kPlane + 1>(lane, tokens, copy);
}

}  // namespace quire::kernels::cuda
