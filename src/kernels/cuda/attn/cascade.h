// Attention of a few new tokens a request where requests of a group share a prefix: its keys are
// read once for all of the group (prefill.h), each request's own ones as ever (decode.h), and both
// results become one (merge_states.h).
//
// Kernels on the caller's stream; a CUDA graph may capture them, and groups, lengths, tables and
// pages may change between its launches. The same input gives the same bits.
#pragma once

#include "kernels/cuda/attn/decode.h"

namespace quire::kernels::cuda {

// Requests of a group follow each other, and its prefix ends before the own keys of each: group g
// has requests [first_requests[g], first_requests[g + 1]). Requests of no group have own keys only.
struct CascadeParams {
    // Of own keys: lengths (0: none), blocks. workspace is not read, window must be 0.
    DecodeParams own;
    int32_t n_groups = 0;
    const int32_t* first_requests = nullptr;  // [n_groups + 1]
    const int32_t* prefix_lengths = nullptr;  // [n_groups]
    const int32_t* prefix_blocks = nullptr;   // [n_groups][prefix_table_stride]
    int64_t prefix_table_stride = 0;
    void* workspace = nullptr;  // cascade_workspace_bytes(), aligned to 128
};

const char* cascade_supports(const CascadeParams& params);

// `blocks`: decode_blocks() of the device that it will run on.
size_t cascade_workspace_bytes(const CascadeParams& params, int32_t blocks);

// REQUIRES: cascade_supports() == nullptr. Returns the CUDA runtime's error code, 0 for none.
int cascade(const CascadeParams& params, int32_t blocks, CUstream_st* stream);

}  // namespace quire::kernels::cuda
