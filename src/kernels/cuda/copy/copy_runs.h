// Copies of rows at strides by some multiprocessors: see layout.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/copy/copy.h"
#include "kernels/cuda/copy/layout.h"

struct CUstream_st;

namespace quire::kernels::cuda {

struct CopyRunsLaunch {
    // In device memory until the copy is done; numbered by number_runs(), which said `units`.
    const StridedRun* runs = nullptr;
    int32_t n = 0;
    int64_t units = 0;
    int32_t blocks = 8;              // at least 1
    const StopLine* stop = nullptr;  // as in CopyLaunch
    // Device memory or null: to sums[i] is added checksum() of run i's rows one behind the other.
    uint64_t* sums = nullptr;
};

// REQUIRES: check_run() is ok with every run, and no two rows overlap where they go. Queues on the
// stream; returns the CUDA runtime's error code, 0 for none.
int copy_runs(const CopyRunsLaunch& launch, CUstream_st* stream);

}  // namespace quire::kernels::cuda
