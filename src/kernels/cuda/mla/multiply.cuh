// What the two multiplying warpgroups of an MLA decode do with their segments.
//
// A round takes two tiles, a and b. Values are added in that order in both halves of the result, so
// that both know the same tops; while one warpgroup waits for weights or makes some, the other's
// products fill the tensor cores.
#pragma once

#include "kernels/cuda/mla/results.cuh"
#include "kernels/cuda/ptx/lane_copy.cuh"

namespace quire::kernels::cuda {

inline constexpr float kMlaLog2e = 1.4426950408889634f;

template <MlaSource kSource, int kCluster, int kHalf>
class MlaMultiplier {
 public:
    __device__ MlaMultiplier(const MlaParams& p, MlaShared* shared)
        : p_(p), s_(*shared), unit_(p.scale * kMlaLog2e) {
        if (threadIdx.x != 0) return;
        const MlaPlace place(p, divide_workspace(p));
        s_.multiplied.begin(place.list, place.worker);
    }

    __device__ void run() {
        while (next_segment()) {
            load_queries();
            state_.clear();
            const int32_t end = segment().end;
            for (int32_t tile = segment().begin; tile < end; tile += 2) round(tile, tile + 1 < end);
            join_sums();
            MlaResults<kHalf> results(p_, &s_);
            if (segment().whole)
                results.write(state_);
            else
                results.leave_partial(state_);
        }
    }

 private:
    static constexpr int kPieces = kMlaRowPieces<kSource>;

    __device__ const Segment& segment() const { return s_.multiplied.segment; }
    __device__ MlaPlace place() const { return MlaPlace(p_, divide_workspace(p_)); }

    // When both warpgroups are through with the last one.
    __device__ bool next_segment() {
        meet(kMath, kMlaMathThreads);
        if (threadIdx.x == 0) advance();
        meet(kMath, kMlaMathThreads);
        return s_.multiplied.more != 0;
    }

    // By one thread.
    __device__ void advance() {
        s_.multiplied.advance();
        if (s_.multiplied.more == 0) return;
        const MlaPlace at = place();
        s_.row_tile = at.row_tile(segment());
        s_.n_keys = p_.lengths[segment().request];
        if (segment().whole) return;
        const WorkList& list = at.list;
        const int32_t first = list.first_tile_of(segment().request, segment().head);
        s_.parts = list.workers_of(segment().request, segment().head);
        s_.part = at.worker - list.worker_of(first);
        s_.part_stride = at.team * kMlaPartialFloats;
        s_.first_partial = divide_workspace(p_).partials + at.member * kMlaPartialFloats +
                           list.slot_of(at.worker - s_.part, false) * s_.part_stride;
    }

    __device__ static int thread() { return thread_now() % 128; }

    // Row of the request's queries, in order of token, head.
    __device__ int32_t query_row(int32_t row) const { return s_.row_tile * kMlaTileRows + row; }
    __device__ int32_t n_rows() const { return p_.n_queries * p_.n_heads; }
    __device__ int64_t offset(int32_t row, int64_t token_stride, int64_t head_stride) const {
        const int64_t token =
            int64_t{segment().request} * p_.n_queries + query_row(row) / p_.n_heads;
        return token * token_stride + query_row(row) % p_.n_heads * head_stride;
    }

    __device__ void load_queries() {
        constexpr int kChunks = kPieces * 8;  // of 16 bytes, in a row
        for (int at = thread_now(); at < kMlaTileRows * kChunks; at += kMlaMathThreads) {
            const int row = at / kChunks, chunk = at % kChunks;
            const uint16_t* from = nullptr;
            if (query_row(row) < n_rows())
                from = static_cast<const uint16_t*>(p_.q) +
                       offset(row, p_.q_token_stride, p_.q_head_stride) + chunk * 8;
            copy_16_or_clear(s_.q[chunk / 8] + row * 128 + (((chunk ^ row) % 8) << 4), from);
        }
        if (const int row = thread_now(); row < kMlaTileRows)
            s_.out_at[row] = offset(row, p_.out_token_stride, p_.out_head_stride);
        wait_for_copies();
        fence_shared_writes();
        meet(kMath, kMlaMathThreads);
    }

    __device__ void round(int32_t tile, bool has_b) {
        if constexpr (kHalf == 0)
            round_of_0(tile, has_b);
        else
            round_of_1(tile, has_b);
    }

    __device__ void round_of_0(int32_t tile, bool has_b) {
        float keep[2];
        make_scores(tile);
        state_.weigh(unit_, keep);
        hand_over();
        state_.rescale(keep);
        state_.queue_own_values(s_);
        wgmma_wait<0>();
        pin(state_.out);
        release(0);
        if (!has_b) return;
        meet(kWeightsOf1, kMlaMathThreads);
        state_.follow(s_.top[1], keep);
        state_.rescale(keep);
        state_.queue_other_values(s_);
        wgmma_wait<0>();
        pin(state_.out);
        release(1);
    }

    __device__ void round_of_1(int32_t tile, bool has_b) {
        float keep[2];
        if (has_b) make_scores(tile + 1);
        meet(kWeightsOf0, kMlaMathThreads);
        state_.follow(s_.top[0], keep);
        state_.rescale(keep);
        state_.queue_other_values(s_);
        if (has_b) {
            state_.weigh(unit_, keep);
            hand_over();
        }
        wgmma_wait<0>();
        pin(state_.out);
        release(0);
        if (!has_b) return;
        state_.rescale(keep);
        state_.queue_own_values(s_);
        wgmma_wait<0>();
        pin(state_.out);
        release(1);
    }

    // Scores of the tile, masked; afterwards the last piece of the own buffer is free for weights.
    __device__ void make_scores(int32_t tile) {
        state_.template queue_scores<kSource != MlaSource::tiles>(s_, fills_++ & 1);
        wgmma_wait<0>();
        pin(state_.scores);
        const int32_t first_key = tile * kMlaTileKeys, n_keys = s_.n_keys;
        const bool is_list = kSource != MlaSource::tiles && p_.lists != nullptr;
        if (is_list || first_key + kMlaTileKeys > n_keys - p_.n_queries + 1)
            state_.mask(rows_end(0) - first_key, rows_end(1) - first_key,
                        is_list ? s_.left_out[kHalf] : 0);
        meet(kHalf == 0 ? kOwn0 : kOwn1, 128);
        if (kSource == MlaSource::tiles && first_key + kMlaTileKeys > n_keys)
            clear_values(n_keys - first_key);
    }

    // Keys that row i of the lane sees.
    __device__ int32_t rows_end(int i) const {
        const int32_t query = query_row(mla_lane_row(i)) / p_.n_heads;
        return min(s_.n_keys - p_.n_queries + 1 + query, s_.n_keys);
    }

    // Rows of the own buffer that are no keys may hold anything, and 0 x NaN is NaN.
    __device__ void clear_values(int32_t keys) {
        const int chunks = (kMlaTileKeys - keys) * 8;
        for (int i = thread(); i < 8 * chunks; i += 128)
            reinterpret_cast<uint4*>(s_.k[kHalf][i / chunks] + keys * 128)[i % chunks] = uint4{};
        fence_shared_writes();
        meet(kHalf == 0 ? kOwn0 : kOwn1, 128);
    }

    // Weights of the own tile, to the other warpgroup.
    __device__ void hand_over() {
        state_.publish(s_);
        fence_shared_writes();
        arrive(kHalf == 0 ? kWeightsOf0 : kWeightsOf1, kMlaMathThreads);
    }

    // The own half of the buffer may be written again.
    __device__ void release(int buffer) {
        Barrier* empty = &s_.empty[buffer][kHalf];
        if constexpr (kCluster == 1) {
            if (threadIdx.x % 32 == 0) empty->arrive();
        } else {
            if (threadIdx.x % 32 < kCluster) arrive_in(empty, threadIdx.x % 32);
        }
    }

    // Sums of weights of all tiles, of the lane's rows.
    __device__ void join_sums() {
        for (int i = 0; i < 2; ++i) {
            float& sum = state_.sum[i];
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            if (thread_now() % 4 == 0) s_.sum[kHalf][mla_lane_row(i)] = sum;
        }
        meet(kMath, kMlaMathThreads);
        for (int i = 0; i < 2; ++i)
            state_.sum[i] = s_.sum[0][mla_lane_row(i)] + s_.sum[1][mla_lane_row(i)];
    }

    const MlaParams& p_;
    MlaShared& s_;
    const float unit_;
    uint32_t fills_ = 0;  // of the own buffer
    WarpgroupState<kHalf, kPieces> state_;
};

}  // namespace quire::kernels::cuda
