#include "kernels/cuda/attn/numbers.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {
int allow_shared(const void* kernel, std::atomic<uint64_t>* done) {
    int device = 0, reserved = 0;
    cudaFuncAttributes attributes;
    cudaError_t e = cudaGetDevice(&device);
    const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;
    if (e == cudaSuccess && (done->load(std::memory_order_acquire) & bit) != 0) return 0;
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&attributes, kernel);
    if (e == cudaSuccess && reserved + attributes.sharedSizeBytes != kSharedStart)
        e = cudaErrorNotSupported;
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedMax);
    if (e == cudaSuccess) done->fetch_or(bit, std::memory_order_release);
    return static_cast<int>(e);
}

int32_t decode_blocks() {
    int device = 0, multiprocessors = 0;
    if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess)
        return -static_cast<int32_t>(e);
    const cudaError_t e =
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    return e == cudaSuccess ? multiprocessors : -static_cast<int32_t>(e);
}

template <int kHeadDim, class Pages>
int decode_rows(const DecodeParams& p, int32_t blocks, CUstream_st* stream) {
    const int32_t tiles = row_tiles(kHeadDim, rows_of_head(p));
    if constexpr (row_tiles_max(kHeadDim) >= 4)
        if (tiles == 4) return launch_decode<kHeadDim, 4, Pages>(p, blocks, stream);
    if constexpr (row_tiles_max(kHeadDim) >= 2)
        if (tiles == 2) return launch_decode<kHeadDim, 2, Pages>(p, blocks, stream);
    return launch_decode<kHeadDim, 1, Pages>(p, blocks, stream);
}

template <class Pages>
int decode_pages(const DecodeParams& p, int32_t blocks, CUstream_st* stream) {
    switch (p.head_dim) {
        case 64:
            return decode_rows<64, Pages>(p, blocks, stream);
        case 80:
            return decode_rows<80, Pages>(p, blocks, stream);
        case 96:
            return decode_rows<96, Pages>(p, blocks, stream);
        case 128:
            return decode_rows<128, Pages>(p, blocks, stream);
        case 192:
            return decode_rows<192, Pages>(p, blocks, stream);
        case 256:
            return decode_rows<256, Pages>(p, blocks, stream);
        default:
            return static_cast<int>(cudaErrorInvalidValue);
    }
}

int decode(const DecodeParams& p, int32_t blocks, CUstream_st* stream) {
    if (p.n_requests == 0) return 0;
    return with_pages(p,
                      [&]<class Pages>(Pages) { return decode_pages<Pages>(p, blocks, stream); });
}

}  // namespace quire::kernels::cuda
