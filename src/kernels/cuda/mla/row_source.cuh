// Tiles of keys one after the other, and where the rows of their keys are.
#pragma once

#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/mla/shared.cuh"

namespace quire::kernels::cuda {

// A warp's; all its lanes call.
class TileCursor {
 public:
    __device__ TileCursor(const MlaParams& p, MlaShared* shared) : p_(p), s_(*shared) {
        if (thread_now() % 32 == 0) {
            const MlaPlace place(p, divide_workspace(p));
            walk().begin(place.list, place.worker);
            walk().segment.end = 0;
        }
        __syncwarp();
    }

    // false: there are no more.
    __device__ bool next() {
        if (++tile_ < end()) return true;
        __syncwarp();
        if (thread_now() % 32 == 0) {
            walk().advance();
            if (walk().more != 0) walk().n_keys = p_.lengths[walk().segment.request];
        }
        __syncwarp();
        tile_ = walk().segment.begin;
        return walk().more != 0;
    }
    __device__ int buffer() const { return (tile_ - walk().segment.begin) % 2; }
    __device__ int32_t tile() const { return tile_; }
    // Behind the last tile of the segment.
    __device__ int32_t end() const { return walk().segment.end; }
    __device__ int32_t n_keys() const { return walk().n_keys; }
    __device__ int32_t request() const { return walk().segment.request; }

    // Bit i: key i of the warp's 16 of the tile is none.
    __device__ uint32_t left_out() const {
        const int32_t of_tile = thread_now() / 32 % 4 * 16 + thread_now() % 16;
        const int32_t key = tile_ * kMlaTileKeys + of_tile;
        const bool is_none = key >= n_keys() || p_.lists[request() * p_.list_stride + key] < 0;
        return __ballot_sync(0xffffffff, is_none) & 0xffff;
    }
    __device__ static void write_left_out(uint64_t* to, uint32_t bits) {
        if (thread_now() % 32 == 0)
            reinterpret_cast<uint16_t*>(to)[thread_now() / 32 % 4] = static_cast<uint16_t>(bits);
    }

    // A token in a block.
    struct Place {
        const std::byte* block;  // null: the key is none
        int32_t token;
    };
    __device__ Place place_of(int32_t key_of_tile) const {
        const int32_t key = tile_ * kMlaTileKeys + key_of_tile;
        if (key >= n_keys()) return {};
        const int shift = __ffs(p_.block_tokens) - 1;  // a power of two
        int64_t block = 0;
        int32_t token = key;
        if (p_.lists != nullptr) {
            const int64_t slot = p_.lists[request() * p_.list_stride + key];
            if (slot < 0) return {};
            block = slot >> shift;
            token = static_cast<int32_t>(slot);
        } else {
            block = p_.blocks[request() * p_.table_stride + (key >> shift)];
        }
        QUIRE_DEVICE_CHECK(block >= 0 && block < p_.n_blocks,
                           "blocks or lists: there is no block of that number");
        if (block < 0 || block >= p_.n_blocks) return {};
        return {p_.pages + block * p_.block_stride, token & (p_.block_tokens - 1)};
    }

 private:
    __device__ SharedWalk& walk() const { return s_.brought[thread_now() / 32 % 4]; }

    const MlaParams& p_;
    MlaShared& s_;
    int32_t tile_ = 0;
};

// Counts fills of the two buffers, and waits until a half may be written again: in all blocks of
// the cluster.
class EmptyHalves {
 public:
    __device__ explicit EmptyHalves(MlaShared* shared) : s_(*shared) {}

    __device__ void wait(int buffer, int half) {
        const uint32_t fills = buffer == 0 ? fills_0_ : fills_1_;
        if (fills > 0) s_.empty[buffer][half].wait((fills - 1) & 1);
    }
    __device__ void filled(int buffer) { ++(buffer == 0 ? fills_0_ : fills_1_); }

 private:
    MlaShared& s_;
    uint32_t fills_0_ = 0, fills_1_ = 0;
};

}  // namespace quire::kernels::cuda
