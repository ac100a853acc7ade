// From sums in registers to results, where a segment is all of its request and row tile, and by way
// of partial results where it is a part.
//
// Parts are merged by whoever comes last, in order of workers, so that the same input gives the
// same bits. Of many parts, groups are merged first, by the last of each, and then the groups.
#pragma once

#include "kernels/cuda/mla/warpgroup_state.cuh"

namespace quire::kernels::cuda {

inline constexpr float kMlaLn2 = 0.6931471805599453f;

template <int kHalf>
class MlaResults {
 public:
    __device__ MlaResults(const MlaParams& p, MlaShared* shared) : p_(p), s_(*shared) {}

    template <class State>
    __device__ void write(State& state) {
        float norm[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) norm[i] = finish_row(i, state.top[i], state.sum[i]);
        state.rescale(norm);
#pragma unroll
        for (int j = 0; j < 32; ++j) write_pairs<0>(state.out + 4 * j, j);
#pragma unroll
        for (int j = 0; j < 32; ++j) write_pairs<1>(state.out + 4 * j, j);
    }

    template <class State>
    __device__ void leave_partial(const State& state) {
        float* partial = partial_of(s_.part);
#pragma unroll
        for (int j = 0; j < 32; ++j)
            own_pairs(partial)[j * 128] = make_float4(state.out[4 * j], state.out[4 * j + 1],
                                                      state.out[4 * j + 2], state.out[4 * j + 3]);
        write_tops(partial, state.top, state.sum);
        if (s_.parts <= kMlaGroupParts) {
            if (is_last(s_.parts, request_counter())) merge(0, 1, s_.parts, nullptr);
            return;
        }
        const int32_t first = s_.part / kMlaGroupParts * kMlaGroupParts;
        const int32_t n = min(s_.parts - first, kMlaGroupParts);
        auto* group = reinterpret_cast<int32_t*>(partial_of(first) + kMlaArrivedAt);
        if (!is_last(n, group)) return;
        merge(first, 1, n, partial_of(first));
        const int32_t groups = (s_.parts - 1) / kMlaGroupParts + 1;
        if (is_last(groups, request_counter())) merge(0, kMlaGroupParts, groups, nullptr);
    }

 private:
    __device__ int32_t query_row(int row) const { return s_.row_tile * kMlaTileRows + row; }
    __device__ bool is_query(int row) const { return query_row(row) < p_.n_queries * p_.n_heads; }

    // A worker's slot is its second one where the tiles go on after it.
    __device__ float* partial_of(int32_t part) const {
        return s_.first_partial + (2 * part + (part + 1 < s_.parts ? 1 : 0)) * s_.part_stride;
    }
    __device__ static float4* own_pairs(float* partial) {
        return reinterpret_cast<float4*>(partial) + kHalf * 32 * 128 + thread_now() % 128;
    }
    __device__ int32_t* request_counter() const {
        return divide_workspace(p_).arrived + s_.multiplied.segment.request * mla_row_tiles(p_) +
               s_.row_tile;
    }

    // Whether this block is the last of n to come; then it sees what the others wrote.
    __device__ bool is_last(int32_t n, int32_t* counter) {
        __threadfence();
        meet(kMath, kMlaMathThreads);
        if (threadIdx.x == 0) s_.is_last = atomicAdd(counter, 1) + 1 == n;
        meet(kMath, kMlaMathThreads);
        if (s_.is_last == 0) return false;
        __threadfence();
        return true;
    }

    // Parts first, first + step, ...: to a partial result, or (null) out.
    __device__ void merge(int32_t first, int32_t step, int32_t n, float* to) {
        float top[2] = {kMlaNoScore, kMlaNoScore}, sum[2] = {}, norm[2] = {1.0f, 1.0f};
        for (int32_t k = 0; k < n; ++k) {
            const float* tops = partial_of(first + k * step) + kMlaTopsAt;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float theirs = __ldcg(tops + mla_lane_row(i)), now = fmaxf(top[i], theirs);
                sum[i] = sum[i] * exp2_fast(top[i] - now) +
                         __ldcg(tops + kMlaTileRows + mla_lane_row(i)) * exp2_fast(theirs - now);
                top[i] = now;
            }
        }
        if (to == nullptr)
            for (int i = 0; i < 2; ++i) norm[i] = finish_row(i, top[i], sum[i]);
        constexpr int kPairs = 8;
#pragma unroll 1
        for (int j = 0; j < 32; j += kPairs) {
            float4 sums[kPairs] = {};
            for (int32_t k = 0; k < n; ++k) add_part(partial_of(first + k * step), top, j, sums);
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                float4& x = sums[i];
                x = {x.x * norm[0], x.y * norm[0], x.z * norm[1], x.w * norm[1]};
                if (to != nullptr) {
                    own_pairs(to)[(j + i) * 128] = x;
                } else {
                    write_pairs<0>(&x.x, j + i);
                    write_pairs<1>(&x.x, j + i);
                }
            }
        }
        if (to == nullptr) return;
        meet(kMath, kMlaMathThreads);  // all have read the tops that are written now
        write_tops(to, top, sum);
    }
    template <int kPairs>
    __device__ static void add_part(float* partial, const float (&top)[2], int j,
                                    float4 (&sums)[kPairs]) {
        float more[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            more[i] = exp2_fast(__ldcg(partial + kMlaTopsAt + mla_lane_row(i)) - top[i]);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            const float4 x = __ldcg(own_pairs(partial) + (j + i) * 128);
            float4& y = sums[i];
            y = {fmaf(x.x, more[0], y.x), fmaf(x.y, more[0], y.y), fmaf(x.z, more[1], y.z),
                 fmaf(x.w, more[1], y.w)};
        }
    }

    __device__ static void write_tops(float* partial, const float (&top)[2],
                                      const float (&sum)[2]) {
        if constexpr (kHalf == 0) {
            if (thread_now() % 4 != 0) return;
            for (int i = 0; i < 2; ++i) {
                partial[kMlaTopsAt + mla_lane_row(i)] = top[i];
                partial[kMlaTopsAt + kMlaTileRows + mla_lane_row(i)] = sum[i];
            }
        }
    }

    // Writes the row's log-sum-exp; returns what its sums of values are to be multiplied with.
    __device__ float finish_row(int i, float top, float sum) {
        const int row = mla_lane_row(i);
        if (p_.lse != nullptr && kHalf == 0 && thread_now() % 4 == 0 && is_query(row)) {
            const int64_t first =
                int64_t{s_.multiplied.segment.request} * p_.n_queries * p_.n_heads;
            p_.lse[first + query_row(row)] = sum > 0 ? (top + __log2f(sum)) * kMlaLn2 : -INFINITY;
        }
        return sum > 0 ? __fdividef(1.0f, sum) : 0.0f;
    }

    // The numbers of row kRow of the lane in columns 8j + 2t, 8j + 2t + 1, from those of a part of
    // `out`.
    template <int kRow>
    __device__ void write_pairs(const float* x, int j) {
        const int row = mla_lane_row(kRow);
        if (!is_query(row)) return;
        const int64_t at = s_.out_at[row] + 256 * kHalf + thread_now() % 4 * 2 + 8 * j;
        if (p_.out_element == Numbers::f32)
            *reinterpret_cast<float2*>(static_cast<float*>(p_.out) + at) =
                make_float2(x[2 * kRow], x[2 * kRow + 1]);
        else
            *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(p_.out) + at) =
                bf16_pair(x[2 * kRow], x[2 * kRow + 1]);
    }

    const MlaParams& p_;
    MlaShared& s_;
};

}  // namespace quire::kernels::cuda
