// What a warpgroup of an MLA decode holds in registers, and what it does with a tile: scores of 64
// query rows and 64 keys, weights, sums of values. A lane has rows g and g + 8 of its warp's 16.
//
// Weights are 2^(score - top) with a top that every warpgroup of the block agrees on. It moves only
// when a score exceeds it by kLazy, so that sums are seldom rescaled; weights stay below 2^kLazy.
#pragma once

#include "kernels/cuda/mla/shared.cuh"

namespace quire::kernels::cuda {

inline constexpr float kMlaNoScore =
    -1e30f;  // a top of nothing; finite, so that 2^(-inf - it) is 0
inline constexpr float kLazy = 8.0f;

template <int kHalf, int kPieces>
struct WarpgroupState {
    float out[128];    // [8 columns][row g: two, row g + 8: two]
    float scores[32];  // the same
    uint32_t weights[16];
    float top[2];
    float sum[2];  // of the lane's weights, which are those of its own tiles

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < 128; ++i) out[i] = 0.0f;
        top[0] = top[1] = kMlaNoScore;
        sum[0] = sum[1] = 0.0f;
    }

    // Queues scores of the tile in the own buffer, as its pieces come: in two parts where they were
    // written with ordinary stores, of this block or of another.
    template <bool kStored>
    __device__ void queue_scores(MlaShared& s, uint32_t parity) {
        pin(scores);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            if (!kStored) s.full[kHalf][piece_at(i)].wait(parity);
            if (kStored && (i == 0 || i == 4)) {
#pragma unroll
                for (int j = i; j < (i == 0 ? 4 : kPieces); ++j)
                    s.full[kHalf][piece_at(j)].wait(parity);
                fence_shared_writes();
            }
            wgmma_fence();  // a wait is a loop: ptxas serialises products around one without it
            const uint64_t q = tile_by_rows(s.q[piece_at(i)]);
            const uint64_t k = tile_by_rows(s.k[kHalf][piece_at(i)]);
#pragma unroll
            for (int step = 0; step < 4; ++step)
                wgmma_64(scores, q + step * kNextK, k + step * kNextK, i + step > 0);
        }
        wgmma_commit();
    }
    // The half of the result that is made here first.
    __device__ static constexpr int piece_at(int i) {
        return kHalf == 0 || i == kMlaPieces - 1 ? i : i ^ 4;
    }

    // Adds the values of the own tile, with weights from registers.
    __device__ void queue_own_values(MlaShared& s) {
        const uint64_t v = tiles_by_columns(s.k[kHalf][4 * kHalf]);
        pin(out);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step)
            wgmma_256(out, weights + 4 * step, v + step * kNextRows);
        wgmma_commit();
    }
    // Adds the values of the other warpgroup's tile, with its weights.
    __device__ void queue_other_values(MlaShared& s) {
        const uint64_t v = tiles_by_columns(s.k[1 - kHalf][4 * kHalf]);
        const uint64_t a = tile_by_rows(s.k[1 - kHalf][kMlaPieces - 1]);
        pin(out);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step)
            wgmma_256(out, a + step * kNextK, v + step * kNextRows);
        wgmma_commit();
    }

    // Scores of keys of the tile that the lane's rows do not see, or that are left out, weigh
    // nothing. Bit i: key i.
    __device__ void mask(int32_t end_0, int32_t end_1, uint64_t left_out) {
        const int32_t first = thread_now() % 4 * 2;  // the lane's first column
        const int32_t end[2] = {end_0 - first, end_1 - first};
        left_out >>= first;
        const uint32_t words[2] = {static_cast<uint32_t>(left_out),
                                   static_cast<uint32_t>(left_out >> 32)};
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int column = i / 4 * 8 + i % 2;
            const bool seen =
                column < end[i / 2 % 2] && (words[column / 32] >> column % 32 & 1) == 0;
            if (!seen) scores[i] = -INFINITY;
        }
    }

    // From scores to weights; `top` becomes the tile's. `unit`: of scores, in octaves. Returns what
    // earlier sums are to be multiplied with.
    __device__ void weigh(float unit, float (&keep)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float most = -INFINITY;
#pragma unroll
            for (int j = 0; j < 16; ++j) most = fmaxf(most, scores[j / 2 * 4 + row * 2 + j % 2]);
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2)) * unit;
            const float now = most > top[row] + kLazy ? most : top[row];
            keep[row] = exp2_fast(top[row] - now);
            top[row] = now;
            float more = 0;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float a = exp2_fast(fmaf(scores[4 * j + 2 * row], unit, -now));
                const float b = exp2_fast(fmaf(scores[4 * j + 2 * row + 1], unit, -now));
                more += a + b;
                weights[2 * j + row] = bf16_pair(a, b);
            }
            sum[row] = fmaf(sum[row], keep[row], more);
        }
    }

    // Takes over the top that the other warpgroup found after this one's.
    __device__ void follow(const float (&theirs)[64], float (&keep)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float now = theirs[mla_lane_row(row)];
            keep[row] = exp2_fast(top[row] - now);
            top[row] = now;
            sum[row] *= keep[row];
        }
    }

    __device__ void rescale(const float (&keep)[2]) {
        if (!__any_sync(0xffffffff, keep[0] != 1.0f || keep[1] != 1.0f)) return;
#pragma unroll
        for (int i = 0; i < 128; ++i) out[i] *= keep[i / 2 % 2];
    }

    // Weights and tops of the own tile, for the other warpgroup.
    __device__ void publish(MlaShared& s) {
        const auto thread = static_cast<uint32_t>(thread_now());
        const uint32_t lane = thread % 32, row = thread / 32 % 4 * 16 + lane % 16;
        const uint32_t line = shared_address(s.k[kHalf][kMlaPieces - 1]) + row * 128;
#pragma unroll
        for (uint32_t step = 0; step < 4; ++step) {
            const uint32_t* w = weights + 4 * step;
            store_matrices(line + (((2 * step + lane / 16) ^ (row % 8)) << 4), w[0], w[1], w[2],
                           w[3]);
        }
        if (lane % 4 == 0)
            for (int i = 0; i < 2; ++i) s.top[kHalf][mla_lane_row(i)] = top[i];
    }
};

}  // namespace quire::kernels::cuda
