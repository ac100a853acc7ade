// Copies of many fragments by some multiprocessors: gather and scatter between device memory and
// pinned memory of the host, or within a device.
//
// For fragments that the copy engines are slow with. It takes as many blocks as it is told, so that
// whoever computes keeps the rest of the device.
#pragma once

#include <cstdint>

#include "kernels/cuda/copy/copy_plan.h"

struct CUstream_st;

namespace quire::kernels::cuda {

// `fragments`: in memory that the device reads, until the copy is done; REQUIRES:
// check_fragments() is ok with them. `blocks`: at least 1. Queues on the stream; returns the CUDA
// runtime's error code, 0 for none.
int copy_fragments(const CopyFragment* fragments, int32_t n, int32_t blocks, CUstream_st* stream);

}  // namespace quire::kernels::cuda
