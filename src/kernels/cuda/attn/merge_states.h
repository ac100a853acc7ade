// Results of attention over parts of the keys, each with its log-sum-exp, become the result over
// all of them: of a shared prefix and what follows it, or of ranks that have some of the keys each.
#pragma once

#include <cstdint>

#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

inline constexpr int32_t kMergePartsMax = 8;

// Pointers are to device memory; out and its strides in bytes are multiples of 16.
struct MergePart {
    const void* out = nullptr;   // [n_tokens][n_heads][head_dim]
    const float* lse = nullptr;  // [n_tokens][n_heads], natural; -inf: nothing, and out is not read
    int64_t token_stride = 0;    // of out, in numbers
    int64_t head_stride = 0;
};

// Parts are added in their order: the same input gives the same bits. `out` may be a part's, if it
// has the same element and strides. Rows without any part become zeros, with lse -inf.
struct MergeParams {
    MergePart parts[kMergePartsMax];
    int32_t n_parts = 0;
    int32_t n_tokens = 0;
    int32_t n_heads = 0;
    int32_t head_dim = 0;  // a multiple of 8
    Numbers parts_element = Numbers::f32;
    Numbers element = Numbers::bf16;  // of out
    void* out = nullptr;              // [n_tokens][n_heads][head_dim]
    int64_t token_stride = 0;
    int64_t head_stride = 0;
    float* lse = nullptr;  // [n_tokens][n_heads]; null: nobody asks
};

const char* merge_states_supports(const MergeParams& params);

// Queues it on the stream. REQUIRES: merge_states_supports() == nullptr. Returns the CUDA runtime's
// error code, 0 for none.
int merge_states(const MergeParams& params, CUstream_st* stream);

}  // namespace quire::kernels::cuda
