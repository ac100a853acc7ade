// The kernels of mla.h and what queues them.
#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/mla/launch.h"
#include "kernels/cuda/mla/units/units.cuh"
#include "kernels/cuda/sched/count_tiles.cuh"

namespace quire::kernels::cuda {
namespace {

// One block: first_tiles, and counters that are zero.
__global__ void __launch_bounds__(kCountThreads)
    prepare_mla(const MlaParams p, const int32_t workers) {
    const MlaWorkspace work = divide_workspace(p);
    count_tiles(
        p.n_requests, [&](int32_t r) { return tiles_of(keys_of(p, r), kMlaTileKeys); },
        work.first_tiles);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.n_requests * mla_row_tiles(p);
         i += kCountThreads)
        work.arrived[i] = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < 2 * workers; i += kCountThreads)
        work.partials[i * kMlaPartialFloats + kMlaArrivedAt] = 0;
}

// The driver's own function, without its library.
int encode_map(const MlaParams& p, CUtensorMap* map) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                               12000, cudaEnableDefault, &found);
    if (error != cudaSuccess) return static_cast<int>(error);
    if (found != cudaDriverEntryPointSuccess) return static_cast<int>(cudaErrorNotSupported);
    constexpr cuuint64_t kNumbers = mla_numbers(MlaRows::bf16);
    const auto tokens = static_cast<cuuint64_t>(p.block_tokens);
    const cuuint64_t sizes[] = {kNumbers, tokens, static_cast<cuuint64_t>(p.n_blocks)};
    const cuuint64_t strides[] = {kNumbers * 2, static_cast<cuuint64_t>(p.block_stride)};
    const cuuint32_t box[] = {64, static_cast<cuuint32_t>(mla_box_tokens(p.block_tokens)), 1};
    const cuuint32_t steps[] = {1, 1, 1};
    const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
        map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<std::byte*>(p.pages), sizes, strides,
        box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? 0 : static_cast<int>(cudaErrorInvalidValue);
}

}  // namespace

int32_t mla_workers() {
    int device = 0, multiprocessors = 0;
    if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess)
        return -static_cast<int32_t>(e);
    if (const cudaError_t e =
            cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        e != cudaSuccess)
        return -static_cast<int32_t>(e);
    return multiprocessors;
}

int mla_decode(const MlaParams& p, int32_t workers, CUstream_st* stream) {
    if (p.n_requests == 0) return 0;
    prepare_mla<<<1, kCountThreads, 0, stream>>>(p, workers);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
        return static_cast<int>(error);
    CUtensorMap map{};
    if (p.rows == MlaRows::v32) return launch_mla_v32(p, map, workers, stream);
    if (p.rows == MlaRows::v4) return launch_mla_v4(p, map, workers, stream);
    if (p.lists != nullptr) return launch_mla_lists(p, map, workers, stream);
    if (const int error = encode_map(p, &map); error != 0) return error;
    return launch_mla_tiles(p, map, workers, stream);
}

}  // namespace quire::kernels::cuda
