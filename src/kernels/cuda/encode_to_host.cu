#include <algorithm>

#include "kernels/cuda/encode_to_host.h"

namespace quire::kernels::cuda {
namespace {

const void* after(const void* rows, int64_t numbers, Numbers element) {
    if (rows == nullptr) return nullptr;
    return static_cast<const std::byte*>(rows) + numbers * (element == Numbers::f32 ? 4 : 2);
}

}  // namespace

int encode_to_host(const EncodeToHostParams& params, CUstream_st* stream, const CopyQueue& copies) {
    const EncodeParams& all = params.encode;
    const int32_t chunk_tokens = params.chunk_blocks * all.block_tokens;
    // Copies of an earlier call may still read the device's pages.
    cudaError_t error = cudaEventRecord(copies.copied, copies.stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(stream, copies.copied, 0);
    for (int32_t token = 0; token < all.n_tokens && error == cudaSuccess; token += chunk_tokens) {
        EncodeParams chunk = all;
        chunk.n_tokens = std::min(chunk_tokens, all.n_tokens - token);
        chunk.slots += token;
        chunk.k.rows = after(all.k.rows, token * all.k.token_stride, all.element);
        chunk.v.rows = after(all.v.rows, token * all.v.token_stride, all.element);
        if (const int failed = encode(chunk, stream); failed != 0) return failed;
        error = cudaEventRecord(copies.encoded, stream);
        if (error == cudaSuccess) error = cudaStreamWaitEvent(copies.stream, copies.encoded, 0);
        const int32_t blocks = (chunk.n_tokens - 1) / all.block_tokens + 1;
        const int64_t at = token / all.block_tokens * all.block_stride;
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(params.host_pages + at, all.pages + at,
                                    static_cast<size_t>(blocks * all.block_stride),
                                    cudaMemcpyDeviceToHost, copies.stream);
    }
    if (error == cudaSuccess) error = cudaEventRecord(copies.copied, copies.stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(stream, copies.copied, 0);
    return static_cast<int>(error);
}

}  // namespace quire::kernels::cuda
