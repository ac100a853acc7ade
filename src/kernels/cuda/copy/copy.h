// Copies of many pieces by some multiprocessors: gather and scatter between device memory and
// pinned memory of the host, or within a device.
//
// For fragments that the copy engines are slow with. It takes as many blocks as it is told, so that
// whoever computes keeps the rest of the device.
#pragma once

#include <cstdint>

#include "kernels/cuda/copy/copy_plan.h"

struct CUstream_st;

namespace quire::kernels::cuda {

// In device memory, zero before the first launch that uses it; launches that share one follow each
// other on a stream.
struct CopyProgress {
    uint64_t done_bytes = 0;
    uint32_t blocks_ended = 0;
};

// How the host says stop: the same word in many lines, of which each block reads one. Reads of one
// line of the host's memory follow each other at a microsecond each, those of many go together.
struct alignas(128) StopLine {
    uint32_t stop = 0;
};
inline constexpr int32_t kStopLines = 64;

struct CopyLaunch {
    // In memory that the device reads, until the copy is done. Pinned memory of the host will do.
    const CopyPiece* pieces = nullptr;
    int32_t n = 0;
    int32_t blocks = 8;  // at least 1

    // Null, or kStopLines lines of pinned memory: once they are not 0, warps begin nothing new. A
    // block looks at its line when it begins and every few pieces.
    const StopLine* stop = nullptr;
    // Both or neither: what was copied by all launches that share them, here and in pinned memory
    // at the end of each launch.
    CopyProgress* progress = nullptr;
    uint64_t* done_bytes = nullptr;
    // Device memory or null: checksum() of every fragment is added to sums[fragment].
    uint64_t* sums = nullptr;
};

// REQUIRES: check_fragments() is ok with the fragments that the pieces come from. Queues on the
// stream; returns the CUDA runtime's error code, 0 for none.
int copy_pieces(const CopyLaunch& launch, CUstream_st* stream);

// Kernels are loaded when they are first launched, which may wait for all that runs; this loads
// them now. Returns an error code as above.
int load_copy();

}  // namespace quire::kernels::cuda
