// Brings bf16 rows of whole pages: one warp, tensor copies.
#pragma once

#include "kernels/cuda/mla/row_source.cuh"
#include "kernels/cuda/ptx/tensor_copy.cuh"

namespace quire::kernels::cuda {

// A box of the map: 64 numbers of a few tokens of a block; a lane takes one box of each piece. Of a
// cluster's blocks each copies its part of a tile's tokens to all of them: what goes from the
// second-level cache to the multiprocessors would else be the limit.
//
// A buffer is free for a short while only, too short for device memory to answer: so the
// second-level cache is asked for a tile kAhead tiles before it is wanted, when the copies of one
// are under way.
template <int kCluster>
class TileBringer {
 public:
    __device__ TileBringer(const MlaParams& p, const CUtensorMap* map, MlaShared* shared)
        : p_(p),
          map_(map),
          s_(*shared),
          empty_(shared),
          cursor_(p, shared),
          box_tokens_(mla_box_tokens(p.block_tokens, kCluster)),
          clusters_(mla_team(p) / kCluster) {}

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
    static constexpr int32_t kAhead = 2, kRowBytes = 2 * mla_numbers(MlaRows::bf16);

    // A tile, and the blocks of the lane's box in it and in the one to ask for (less than 0: none);
    // the table is read before the tile before is brought.
    struct Wanted {
        int32_t tile, block, block_ahead, n_keys;
        int buffer;
    };

    __device__ static int32_t lane() { return thread_now() % 32; }
    // Of the lane's box, in the tile.
    __device__ int32_t box_token() const {
        const int32_t first = kCluster == 1 ? 0 : cluster_rank() * (kMlaTileKeys / kCluster);
        return first + lane() * box_tokens_;
    }
    __device__ bool has_box(int32_t tile, int32_t n_keys) const {
        return lane() * box_tokens_ < kMlaTileKeys / kCluster &&
               tile * kMlaTileKeys + box_token() < n_keys;
    }
    __device__ int32_t block_of(int32_t tile, int32_t n_keys) const {
        if (!has_box(tile, n_keys)) return -1;
        return p_.blocks[cursor_.request() * p_.table_stride +
                         (tile * kMlaTileKeys + box_token()) / p_.block_tokens];
    }
    __device__ Wanted want() {
        const int32_t tile = cursor_.tile(), n_keys = cursor_.n_keys();
        // Clusters of a team take turns.
        const bool asks =
            tile + kAhead < cursor_.end() && tile % clusters_ == block_now() / kCluster % clusters_;
        return {tile, block_of(tile, n_keys), asks ? block_of(tile + kAhead, n_keys) : -1, n_keys,
                cursor_.buffer()};
    }
    __device__ void ask_ahead(const Wanted& wanted) const {
        const int64_t block = wanted.block_ahead;
        if (block < 0 || block >= p_.n_blocks) return;
        const int32_t in_block =
            ((wanted.tile + kAhead) * kMlaTileKeys + box_token()) % p_.block_tokens;
        prefetch_bytes(p_.pages + block * p_.block_stride + in_block * kRowBytes,
                       static_cast<uint32_t>(box_tokens_ * kRowBytes));
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
                copy(s_.k[buffer][piece] + box_token() * 128, piece, in_block, wanted.block, full);
        }
        empty_.filled(buffer);
        ask_ahead(wanted);
    }
    __device__ void copy(std::byte* to, int piece, int32_t in_block, int32_t block,
                         Barrier* full) const {
        if constexpr (kCluster == 1)
            tensor_copy(to, map_, piece * 64, in_block, block, full);
        else
            tensor_copy_to((1 << kCluster) - 1, to, map_, piece * 64, in_block, block, full);
    }

    const MlaParams& p_;
    const CUtensorMap* map_;
    MlaShared& s_;
    EmptyHalves empty_;
    TileCursor cursor_;
    const int32_t box_tokens_, clusters_;
};

}  // namespace quire::kernels::cuda
