// Brings rows of 656 and of 584 bytes as bf16: a warpgroup. Of a cluster's blocks each decodes its
// part of a tile's keys, for all of them: to decode takes as long as to multiply.
//
// A lane has 16 numbers of a key, or two, in each piece. Codes are loaded into registers half a
// tile (or, in a cluster, a whole one) before they are wanted.
#pragma once

#include "kernels/cuda/mla/row_source.cuh"
#include "kernels/cuda/ptx/e4m3.cuh"

namespace quire::kernels::cuda {

// Where the parts of a row are, and the scale of a piece's codes.
template <MlaSource kSource>
struct CodeRow;
template <>
struct CodeRow<MlaSource::v32> {
    static constexpr int kBytes = 656, kRotary = 528;
    static constexpr int kCodePieces = 8, kRotaryPiece = 8;
    using Scale = SplitScale;

    // What load_scales() needs beside the row.
    __device__ static int scales_at(int32_t, int32_t) { return 0; }
    __device__ static uint4 load_scales(const std::byte* row, int) {
        return __ldg(reinterpret_cast<const uint4*>(row + 512));
    }
    __device__ static Scale scale(const uint4& scales, int half, int i) {
        const uint32_t bits =
            half == 0 ? (i < 2 ? scales.x : scales.y) : (i < 2 ? scales.z : scales.w);
        return Scale(__uint_as_float(bits));
    }
};
template <>
struct CodeRow<MlaSource::v4> {
    static constexpr int kBytes = 576, kRotary = 448;
    static constexpr int kCodePieces = 7, kRotaryPiece = 7;
    using Scale = PowerScale;

    __device__ static int scales_at(int32_t block_tokens, int32_t token) {
        return (block_tokens - token) * kBytes + token * 8;
    }
    __device__ static uint4 load_scales(const std::byte* row, int at) {
        const uint2 x = __ldg(reinterpret_cast<const uint2*>(row + at));
        return {x.x, x.y, 0, 0};
    }
    __device__ static Scale scale(const uint4& scales, int half, int i) {
        return Scale((half == 0 ? scales.x : scales.y) >> (8 * i) & 0xff);
    }
};

template <MlaSource kSource, int kCluster>
class CodeBringer {
 public:
    static constexpr int kArrivals = 4;  // a warp each

    __device__ CodeBringer(const MlaParams& p, MlaShared* shared)
        : s_(*shared), empty_(shared), p_(p), cursor_(p, shared) {
        // A quarter of a warp stores 16 bytes of four keys in two chunks: all banks.
        const int lane = thread_now() % 32;
        key_ = (lane & 1) | (lane >> 1 & 1) << 2 | (lane >> 4) << 1;
        chunk_ = lane >> 2 & 3;
        const int part = kCluster == 1 ? 0 : static_cast<int>(cluster_rank());
        if constexpr (kCluster > 1) {
            const uint32_t here = shared_address(shared);
            to_peer_ = address_in(here, 1 - cluster_rank()) - here;
        }
        first_row_ = (part * 4 + thread_now() / 32 % 4) * 8 * kGroups;
    }

    __device__ void run() {
        Tile now = next_tile();
        if (!now.is_there) return;
        for (int i = 0; i < kSlots / kGroups; ++i) load(now, now.buffer, i);
        load_rest(now);
        while (now.is_there) {
            const Tile later = next_tile();
            empty_.wait(now.buffer, now.buffer);
            if (p_.lists != nullptr) cursor_.write_left_out(&s_.left_out[now.buffer], now.left_out);
            store_half<false>(now, now.buffer, later);
            if (Row::kRotaryPiece < 8 && now.buffer == 1) store_rotary(now);
            empty_.wait(now.buffer, 1 - now.buffer);
            store_half<true>(now, 1 - now.buffer, later);
            if (Row::kRotaryPiece == 8 || now.buffer == 0) store_rotary(now);
            if (later.is_there) load_rest(later);
            empty_.filled(now.buffer);
            now = later;
        }
    }

 private:
    using Row = CodeRow<kSource>;
    static constexpr int kGroups = 2 / kCluster;  // of 8 keys, a lane's
    static constexpr int kSlots = 8;              // of codes in registers

    struct Tile {
        const std::byte* rows[kGroups];  // null: a key that is none
        int scales_at[kGroups];
        uint32_t left_out;
        int buffer;
        bool is_there;
    };

    __device__ Tile next_tile() {
        Tile tile = {};
        tile.is_there = cursor_.next();
        if (!tile.is_there) return tile;
        tile.buffer = cursor_.buffer();
        if (p_.lists != nullptr) tile.left_out = cursor_.left_out();
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            const TileCursor::Place place = cursor_.place_of(first_row_ + g * 8 + key_);
            if (place.block != nullptr) tile.rows[g] = place.block + place.token * Row::kBytes;
            tile.scales_at[g] = Row::scales_at(p_.block_tokens, place.token);
        }
        return tile;
    }
    __device__ static uint4 load_16(const std::byte* row, int at) {
        return row == nullptr ? uint4{} : __ldg(reinterpret_cast<const uint4*>(row + at));
    }
    // Slot i: of the first half, or in a cluster of both, in order of use.
    __device__ void load(const Tile& tile, int half, int i) {
        const int piece = (i < 4 ? half : 1 - half) * 4 + i % 4;
        if (piece >= Row::kCodePieces) return;
#pragma unroll
        for (int g = 0; g < kGroups; ++g)
            codes_[i * kGroups + g] = load_16(tile.rows[g], piece * 64 + chunk_ * 16);
    }
    __device__ void load_rest(const Tile& tile) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            scales_[g] = tile.rows[g] == nullptr
                             ? uint4{}
                             : Row::load_scales(tile.rows[g], tile.scales_at[g]);
            if constexpr (kCluster > 1) load_rotary(tile, g);
        }
    }
    __device__ void load_rotary(const Tile& tile, int g) {
        rotary_[g][0] = load_16(tile.rows[g], Row::kRotary + chunk_ * 32);
        rotary_[g][1] = load_16(tile.rows[g], Row::kRotary + chunk_ * 32 + 16);
    }

    // 16 numbers of a piece, from number 16 chunk_ on, to each block of the cluster.
    __device__ void store(int buffer, int piece, int g, const uint4& low, const uint4& high) {
        std::byte* line = s_.k[buffer][piece] + (first_row_ + g * 8 + key_) * 128;
        std::byte* to[2] = {line + (((2 * chunk_) ^ key_) << 4),
                            line + (((2 * chunk_ + 1) ^ key_) << 4)};
        *reinterpret_cast<uint4*>(to[0]) = low;
        *reinterpret_cast<uint4*>(to[1]) = high;
        if constexpr (kCluster > 1) {
            const uint32_t full = shared_address(&s_.full[buffer][piece]) + to_peer_;
            store_in(shared_address(to[0]) + to_peer_, low, full);
            store_in(shared_address(to[1]) + to_peer_, high, full);
        }
    }

    // Stores a piece from its slots.
    template <bool kSecond>
    __device__ void store_piece(const Tile& tile, int half, int i) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            const typename Row::Scale scale = Row::scale(scales_[g], half, i);
            const uint4 x = codes_[(kSecond ? i + 4 : i) * kGroups % kSlots + g];
            store(tile.buffer, half * 4 + i, g,
                  {e4m3_to_bf16<0>(x.x, scale), e4m3_to_bf16<1>(x.x, scale),
                   e4m3_to_bf16<0>(x.y, scale), e4m3_to_bf16<1>(x.y, scale)},
                  {e4m3_to_bf16<0>(x.z, scale), e4m3_to_bf16<1>(x.z, scale),
                   e4m3_to_bf16<0>(x.w, scale), e4m3_to_bf16<1>(x.w, scale)});
        }
        say(tile.buffer, half * 4 + i);
    }

    // Stores the codes of half a tile, and loads what takes their place.
    template <bool kSecond>
    __device__ void store_half(const Tile& tile, int half, const Tile& later) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (half * 4 + i < Row::kCodePieces) store_piece<kSecond>(tile, half, i);
            if constexpr (kCluster > 1) {
                if (later.is_there) load(later, later.buffer, kSecond ? i + 4 : i);
            } else if (!kSecond) {
                load(tile, 1 - half, i);
            } else if (later.is_there) {
                load(later, later.buffer, i);
            }
        }
    }
    __device__ void store_rotary(const Tile& tile) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            if constexpr (kCluster == 1) load_rotary(tile, g);
            store(tile.buffer, Row::kRotaryPiece, g, rotary_[g][0], rotary_[g][1]);
        }
        say(tile.buffer, Row::kRotaryPiece);
    }

    // The warp's part of the piece is there. Its peer's comes as bytes of a copy do.
    __device__ void say(int buffer, int piece) {
        Barrier* full = &s_.full[buffer][piece];
        __syncwarp();
        if (thread_now() % 32 != 0) return;
        if constexpr (kCluster == 1)
            full->arrive();
        else
            full->arrive_expecting(kTileBytes / kCluster / 4);
    }

    MlaShared& s_;
    EmptyHalves empty_;
    const MlaParams& p_;
    TileCursor cursor_;
    int key_, chunk_, first_row_;
    uint32_t to_peer_ = 0;  // from an address here to the same of the other block
    uint4 codes_[kSlots];
    uint4 scales_[kGroups];
    uint4 rotary_[kGroups][2];
};

}  // namespace quire::kernels::cuda
