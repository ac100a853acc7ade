// Brings bf16 rows of whole pages: one warp, tensor copies.
#pragma once

#include "kernels/cuda/mla/row_source.cuh"
#include "kernels/cuda/ptx/tensor_copy.cuh"

namespace quire::kernels::cuda {

// A box of the map: 64 numbers of a few tokens of a block; a lane takes one box of each piece.
class TileBringer {
 public:
    __device__ TileBringer(const MlaParams& p, const CUtensorMap* map, MlaShared* shared)
        : p_(p),
          map_(map),
          s_(*shared),
          empty_(shared),
          cursor_(p, shared),
          box_tokens_(mla_box_tokens(p.block_tokens)) {}

    __device__ void run() {
        bool more = cursor_.next();
        if (!more) return;
        Wanted now = want();
        while (more) {
            more = cursor_.next();
            const Wanted later = more ? want() : now;
            bring(now);
            now = later;
        }
    }

 private:
    // A tile, and the block of the lane's box; the table is read before the tile before is brought.
    struct Wanted {
        int32_t tile, block, n_keys;
        int buffer;
    };

    __device__ static int32_t lane() { return thread_now() % 32; }
    // Of the lane's box, in the tile.
    __device__ int32_t box_token() const { return lane() * box_tokens_; }
    __device__ bool has_box(int32_t tile, int32_t n_keys) const {
        return box_token() < kMlaTileKeys && tile * kMlaTileKeys + box_token() < n_keys;
    }
    __device__ Wanted want() {
        Wanted wanted = {cursor_.tile(), 0, cursor_.n_keys(), cursor_.buffer()};
        if (has_box(wanted.tile, wanted.n_keys))
            wanted.block = p_.blocks[cursor_.request() * p_.table_stride +
                                     (wanted.tile * kMlaTileKeys + box_token()) / p_.block_tokens];
        QUIRE_DEVICE_CHECK(wanted.block >= 0 && wanted.block < p_.n_blocks,
                           "blocks: there is no block of that number");
        return wanted;
    }

    // Pieces in the order in which they are used. The last one is free with the second half.
    __device__ void bring(const Wanted& wanted) {
        const int32_t keys = min(wanted.n_keys - wanted.tile * kMlaTileKeys, kMlaTileKeys);
        const int32_t tokens = (keys + box_tokens_ - 1) / box_tokens_ * box_tokens_;
        const int32_t in_block = (wanted.tile * kMlaTileKeys + box_token()) % p_.block_tokens;
        const bool has = has_box(wanted.tile, wanted.n_keys);
        const int buffer = wanted.buffer;
#pragma unroll 1
        for (int i = 0; i < kMlaPieces; ++i) {
            const int piece = buffer == 0 || i == kMlaPieces - 1 ? i : i ^ 4;
            if (i == 0 || i == 4) empty_.wait(buffer, piece / 4);
            Barrier* full = &s_.full[buffer][piece];
            if (lane() == 0) full->arrive_expecting(static_cast<uint32_t>(tokens) * 128);
            __syncwarp();
            if (has)
                tensor_copy(s_.k[buffer][piece] + box_token() * 128, map_, piece * 64, in_block,
                            wanted.block, full);
        }
        empty_.filled(buffer);
    }

    const MlaParams& p_;
    const CUtensorMap* map_;
    MlaShared& s_;
    EmptyHalves empty_;
    TileCursor cursor_;
    const int32_t box_tokens_;
};

}  // namespace quire::kernels::cuda
