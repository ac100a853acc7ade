// What a block does when its warps have read their keys: it puts together results of heads that
// several workers share.
//
// A head's workers follow each other, so each block merges those of its own first. A head that
// other blocks share too is merged once more, by the block that arrives last. Both add in the order
// of workers: it makes no difference who is last.
#pragma once

#include "kernels/cuda/attn/rows.cuh"
#include "kernels/cuda/attn/workspace.h"

namespace quire::kernels::cuda {

// A head (of one request and pass) in the work list.
struct HeadSpan {
    int32_t request = 0, head = 0;
    int64_t first = 0, last = 0;  // tiles
    int32_t first_worker = 0, last_worker = 0;

    __device__ HeadSpan(const WorkList& list, int64_t tile) {
        request = list.request_of(tile);
        const int64_t n = list.first_tiles[request + 1] - list.first_tiles[request];
        const int64_t begin = int64_t{list.first_tiles[request]} * list.n_heads;
        head = static_cast<int32_t>((tile - begin) / n);
        first = begin + head * n;
        last = first + n;
        first_worker = list.worker_of(first);
        last_worker = list.worker_of(last - 1);
    }
    // Where a worker's part of it is.
    __device__ int32_t slot(const WorkList& list, int32_t worker) const {
        return list.slot_of(worker, worker < last_worker);
    }
};

template <int kHeadDim, int kRows>
class Merger {
    static constexpr int kNumbers = kRows * kHeadDim;

 public:
    // scratch: shared memory that nobody else uses any more.
    __device__ Merger(const DecodePlan& plan, const WorkList& list, const DecodeWorkspace& work,
                      int32_t block_workers, float* scratch)
        : plan_(plan),
          list_(list),
          work_(work),
          block_workers_(block_workers),
          sums_(scratch),
          tops_(scratch + kNumbers),
          weights_(tops_ + kRows),
          is_last_(reinterpret_cast<int32_t*>(weights_ + kRows)),
          keeps_(weights_ + kRows + 4) {}

    // All threads, after a barrier.
    __device__ void run() {
        const int32_t begin = static_cast<int32_t>(blockIdx.x) * block_workers_;
        const int32_t end = min(begin + block_workers_, list_.busy());
        for (int32_t at = begin; at <= end && at < list_.busy();) {
            const HeadSpan head(list_, list_.first_of(at));
            // Worker `at` goes on with a head that an earlier one began, or begins one of its own.
            if (head.first == list_.first_of(at)) {
                ++at;
                continue;
            }
            const int32_t first = max(head.first_worker, begin);
            const int32_t last = min(head.last_worker, end - 1);
            if (first <= last) merge_own(head, first, last);
            at = head.last_worker + 1;
        }
    }

 private:
    __device__ const float* partial(int32_t slot) const {
        return work_.partials + slot * partial_floats(kRows, kHeadDim);
    }

    __device__ void merge_own(const HeadSpan& head, int32_t first, int32_t last) {
        add_up(last - first + 1, [&](int32_t i) { return partial(head.slot(list_, first + i)); });
        const int32_t first_block = head.first_worker / block_workers_;
        const int32_t blocks = head.last_worker / block_workers_ - first_block + 1;
        if (blocks > 1) {
            leave(head.slot(list_, first));
            if (!is_last(head.first_worker, blocks)) return;
            add_up(blocks, [&](int32_t i) {
                const int32_t worker = max(head.first_worker, (first_block + i) * block_workers_);
                return partial(head.slot(list_, worker));
            });
        }
        write(head);
    }

    // Into sums_, tops_ and weights_.
    template <class PartAt>
    __device__ void add_up(int32_t n, PartAt part_at) {
        __syncthreads();
        float* part_tops = keeps_ + n * kRows;
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n * kRows;
             i += static_cast<int32_t>(blockDim.x)) {
            const float* part = part_at(i / kRows) + kNumbers + i % kRows;
            part_tops[i] = __ldcg(part);
            keeps_[i] = __ldcg(part + kRows);
        }
        __syncthreads();
        for (int32_t row = static_cast<int32_t>(threadIdx.x); row < kRows;
             row += static_cast<int32_t>(blockDim.x)) {
            float top = -INFINITY, weight = 0;
            for (int32_t i = 0; i < n; ++i) top = fmaxf(top, part_tops[i * kRows + row]);
            for (int32_t i = 0; i < n; ++i) {
                const float keep =
                    exp2_fast(part_tops[i * kRows + row] - (top == -INFINITY ? 0.0f : top));
                weight += keeps_[i * kRows + row] * keep;
                keeps_[i * kRows + row] = keep;
            }
            tops_[row] = top;
            weights_[row] = weight;
        }
        __syncthreads();
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kNumbers / 4;
             i += static_cast<int32_t>(blockDim.x)) {
            float4 sum = {};
#pragma unroll 4
            for (int32_t w = 0; w < n; ++w) {
                const float4 x = __ldcg(reinterpret_cast<const float4*>(part_at(w)) + i);
                const float keep = keeps_[w * kRows + i * 4 / kHeadDim];
                sum.x += x.x * keep;
                sum.y += x.y * keep;
                sum.z += x.z * keep;
                sum.w += x.w * keep;
            }
            reinterpret_cast<float4*>(sums_)[i] = sum;
        }
        __syncthreads();
    }

    __device__ void leave(int32_t slot) {
        float* to = work_.partials + slot * partial_floats(kRows, kHeadDim);
        for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kNumbers + 2 * kRows;
             i += static_cast<int32_t>(blockDim.x))
            to[i] = sums_[i];
        __threadfence();
        __syncthreads();
    }

    __device__ bool is_last(int32_t first_worker, int32_t blocks) {
        if (threadIdx.x == 0) *is_last_ = atomicAdd(work_.arrived + first_worker, 1) + 1 == blocks;
        __syncthreads();
        __threadfence();
        return *is_last_ != 0;
    }

    __device__ void write(const HeadSpan& head) {
        const RowsOfPass rows(plan_.p, head.request, head.head / plan_.passes,
                              head.head % plan_.passes * kRows);
        const auto lane = static_cast<int32_t>(threadIdx.x % 32);
        for (int32_t row = static_cast<int32_t>(threadIdx.x / 32); row < kRows && rows.has(row);
             row += static_cast<int32_t>(blockDim.x / 32)) {
            WarpRow<kHeadDim> sums;
#pragma unroll
            for (int i = 0; i < WarpRow<kHeadDim>::kOwn; ++i)
                sums.x[i] = sums_[row * kHeadDim + lane + 32 * i];
            write_row(plan_.p, rows, row, sums, tops_[row], weights_[row]);
        }
    }

    const DecodePlan& plan_;
    const WorkList list_;
    const DecodeWorkspace work_;
    const int32_t block_workers_;
    float* sums_;     // [kRows][kHeadDim], then tops_ and weights_ as in a partial result
    float* tops_;     // [kRows]
    float* weights_;  // [kRows]
    int32_t* is_last_;
    float* keeps_;  // [parts][kRows], twice
};

}  // namespace quire::kernels::cuda
