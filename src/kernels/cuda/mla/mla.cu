// The kernels of mla.h and what queues them.
#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/mla/launch.h"
#include "kernels/cuda/mla/units/units.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int kPrepareThreads = 1024;

// One block: first_tiles, and counters that are zero.
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_mla(const MlaParams p, const int32_t workers) {
    const MlaWorkspace work = divide_workspace(p);
    __shared__ int32_t before[kPrepareThreads + 1];
    const int32_t each = (p.n_requests + kPrepareThreads - 1) / kPrepareThreads;
    const int32_t first = static_cast<int32_t>(threadIdx.x) * each;
    const int32_t last = min(first + each, p.n_requests);
    int32_t own = 0;
    for (int32_t r = first; r < last; ++r) own += tiles_of(keys_of(p, r), kMlaTileKeys);
    before[threadIdx.x + 1] = own;
    if (threadIdx.x == 0) before[0] = 0;
    __syncthreads();
    for (int distance = 1; distance < kPrepareThreads; distance *= 2) {
        const int at = static_cast<int>(threadIdx.x) + 1;
        const int32_t more = at > distance ? before[at - distance] : 0;
        __syncthreads();
        before[at] += more;
        __syncthreads();
    }
    int32_t tiles = before[threadIdx.x];
    for (int32_t r = first; r < last; ++r) {
        work.first_tiles[r] = tiles;
        tiles += tiles_of(keys_of(p, r), kMlaTileKeys);
    }
    if (threadIdx.x == 0) work.first_tiles[p.n_requests] = before[kPrepareThreads];
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.n_requests * mla_row_tiles(p);
         i += kPrepareThreads)
        work.arrived[i] = 0;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < 2 * workers; i += kPrepareThreads)
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
    prepare_mla<<<1, kPrepareThreads, 0, stream>>>(p, workers);
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
