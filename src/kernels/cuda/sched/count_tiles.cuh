// What a work list is made from, by one block of kCountThreads threads.
#pragma once

#include "kernels/cuda/sched/work_list.h"

namespace quire::kernels::cuda {

inline constexpr int kCountThreads = 1024;

// first_tiles[r]: tiles in all requests before r; [n_requests]: in all. tiles_in(r): in one.
template <class TilesIn>
__device__ void count_tiles(int32_t n_requests, TilesIn tiles_in, int32_t* first_tiles) {
    __shared__ int32_t before[kCountThreads + 1];
    const int32_t each = (n_requests + kCountThreads - 1) / kCountThreads;
    const int32_t first = static_cast<int32_t>(threadIdx.x) * each;
    const int32_t last = min(first + each, n_requests);
    int32_t own = 0;
    for (int32_t r = first; r < last; ++r) own += tiles_in(r);
    before[threadIdx.x + 1] = own;
    if (threadIdx.x == 0) before[0] = 0;
    __syncthreads();
    for (int distance = 1; distance < kCountThreads; distance *= 2) {
        const int at = static_cast<int>(threadIdx.x) + 1;
        const int32_t more = at > distance ? before[at - distance] : 0;
        __syncthreads();
        before[at] += more;
        __syncthreads();
    }
    int32_t tiles = before[threadIdx.x];
    for (int32_t r = first; r < last; ++r) {
        first_tiles[r] = tiles;
        tiles += tiles_in(r);
    }
    if (threadIdx.x == 0) first_tiles[n_requests] = before[kCountThreads];
}

}  // namespace quire::kernels::cuda
