// New rows into pages of the hot family in pinned host memory: encoded on the GPU, and copied by a
// copy engine while the next ones are encoded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/encode.h"

struct CUevent_st;

namespace quire::kernels::cuda {

struct EncodeToHostParams {
    // Pages are those of the new tokens alone, and device memory: token i goes to block i /
    // block_tokens, and slots say so. head_stride * kv_heads is at most block_stride.
    EncodeParams encode;
    std::byte* host_pages = nullptr;  // n_blocks * block_stride bytes
    int32_t chunk_blocks = 0;         // what one copy takes; a few MiB
};

// nullptr: encode_to_host() takes it. Otherwise a static sentence that says why not.
const char* encode_to_host_supports(const EncodeToHostParams& params);

// What a queue needs beside the caller's: a stream for copies, and an event for either direction.
// Nobody else uses them meanwhile.
struct CopyQueue {
    CUstream_st* stream = nullptr;
    CUevent_st* encoded = nullptr;
    CUevent_st* copied = nullptr;
};

// What follows on `stream` sees the host's pages. REQUIRES: encode_to_host_supports() == nullptr.
// Returns the CUDA runtime's error code, 0 for none.
int encode_to_host(const EncodeToHostParams& params, CUstream_st* stream, const CopyQueue& copies);

}  // namespace quire::kernels::cuda
