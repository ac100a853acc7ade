// Brings bf16 rows of listed tokens: a warpgroup, 16 bytes a lane and copy. Copies are seen by
// those who wait for their barriers and then call fence_shared_writes().
#pragma once

#include "kernels/cuda/mla/row_source.cuh"
#include "kernels/cuda/ptx/lane_copy.cuh"

namespace quire::kernels::cuda {

class ListBringer {
 public:
    static constexpr int kArrivals = 128 + 4;  // of copies, and of what else a warp wrote

    __device__ ListBringer(const MlaParams& p, MlaShared* shared)
        : s_(*shared), empty_(shared), cursor_(p, shared) {
        warp_ = thread_now() / 32 % 4;
        key_ = thread_now() % 32 / 8;
        chunk_ = thread_now() % 8;
    }

    __device__ void run() {
        while (cursor_.next()) {
            const int buffer = cursor_.buffer();
            const uint32_t left_out = cursor_.left_out();
#pragma unroll
            for (int i = 0; i < 4; ++i) rows_[i] = row_of(warp_ * 16 + 4 * i + key_);
            empty_.wait(buffer, buffer);
            cursor_.write_left_out(&s_.left_out[buffer], left_out);
            for (int i = 0; i < 4; ++i) bring(buffer, buffer * 4 + i);
            empty_.wait(buffer, 1 - buffer);
            for (int i = 0; i < 4; ++i) bring(buffer, (1 - buffer) * 4 + i);
            bring(buffer, kMlaPieces - 1);
            empty_.filled(buffer);
        }
    }

 private:
    static constexpr int kRowBytes = 2 * mla_numbers(MlaRows::bf16);

    __device__ const std::byte* row_of(int32_t key) const {
        const TileCursor::Place place = cursor_.place_of(key);
        return place.block == nullptr ? nullptr : place.block + place.token * kRowBytes;
    }

    __device__ void bring(int buffer, int piece) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = warp_ * 16 + 4 * i + key_;
            std::byte* to = s_.k[buffer][piece] + row * 128 + ((chunk_ ^ row % 8) << 4);
            copy_16_or_clear(to,
                             rows_[i] == nullptr ? nullptr : rows_[i] + piece * 128 + chunk_ * 16);
        }
        arrive_after_copies(&s_.full[buffer][piece]);
        if (thread_now() % 32 == 0) s_.full[buffer][piece].arrive();
    }

    MlaShared& s_;
    EmptyHalves empty_;
    TileCursor cursor_;
    int warp_, key_, chunk_;
    const std::byte* rows_[4];
};

}  // namespace quire::kernels::cuda
