#include <dlfcn.h>

#include "gemm.h"
#include "kernels/cuda/ptx/mma.cuh"

namespace quire::gpu_bench {
namespace {

// The few things of cuBLAS that are called, so that its headers are not needed to build.
using CreateFunction = int (*)(void**);
using DestroyFunction = int (*)(void*);
using SetStreamFunction = int (*)(void*, cudaStream_t);
using GemmExFunction = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int,
                               const void*, int, int, const void*, void*, int, int, int, int);
constexpr int kTransposed = 1, kPlain = 0, kBf16 = 14, kCompute32f = 68, kDefaultAlgorithm = -1;

template <class Function>
Function function(void* library, const char* name) {
    return reinterpret_cast<Function>(dlsym(library, name));
}

constexpr int kTile = 128;  // of a block: eight warps, 64 x 32 numbers each

// Without shared memory: a fallback that needs nothing, not a fast one.
__global__ void __launch_bounds__(256)
    gemm_kernel(const uint32_t* a, const uint32_t* b, float* c, int n) {
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
    const int tiles = n / kTile;
    const int row0 = static_cast<int>(blockIdx.x) / tiles * kTile + warp / 4 * 64 + lane / 4;
    const int column0 = static_cast<int>(blockIdx.x) % tiles * kTile + warp % 4 * 32 + lane / 4;
    float sum[4][4][4] = {};
    for (int k = lane % 4; k < n / 2; k += 8) {
        uint32_t rows[4][4], columns[4][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t* p = a + size_t(row0 + 16 * i) * (n / 2) + k;
            rows[i][0] = p[0];
            rows[i][1] = p[size_t{8} * (n / 2)];
            rows[i][2] = p[4];
            rows[i][3] = p[size_t{8} * (n / 2) + 4];
            const uint32_t* q = b + size_t(column0 + 8 * i) * (n / 2) + k;
            columns[i][0] = q[0];
            columns[i][1] = q[4];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) kernels::cuda::mma_bf16(sum[i][j], rows[i], columns[j]);
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            c[size_t(row0 + 16 * i) * n / 2 + column0 / 2 + 4 * j] = sum[i][j][0] + sum[i][j][3];
}

// Normal bf16 numbers of size 1/8 to 1/2, either sign.
__global__ void shrink_kernel(uint32_t* data, size_t words) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
         i += size_t{gridDim.x} * blockDim.x)
        data[i] = (data[i] & 0x80ff80ff) | 0x3e003e00;
}

}  // namespace

Gemm::Gemm(int n) : n_(n), a_(size_t(n) * n * 2), b_(size_t(n) * n * 2), c_(size_t(n) * n * 2) {
    for (const DeviceBuffer* buffer : {&a_, &b_})
        shrink_kernel<<<1024, 256>>>(buffer->as<uint32_t>(), buffer->bytes() / 4);
    check(cudaDeviceSynchronize(), "numbers to multiply");
    library_ = dlopen("libcublas.so.13", RTLD_NOW);
    if (library_ == nullptr) return;
    const auto create = function<CreateFunction>(library_, "cublasCreate_v2");
    if (create == nullptr || create(&handle_) != 0) handle_ = nullptr;
}

Gemm::~Gemm() {
    if (handle_ != nullptr) function<DestroyFunction>(library_, "cublasDestroy_v2")(handle_);
}

void Gemm::queue(cudaStream_t stream) const {
    if (handle_ == nullptr) {
        const auto tiles = static_cast<uint32_t>(n_ / kTile);
        gemm_kernel<<<tiles * tiles, 256, 0, stream>>>(a_.as<const uint32_t>(),
                                                       b_.as<const uint32_t>(), c_.as<float>(), n_);
        check(cudaGetLastError(), "a matrix product");
        return;
    }
    const float one = 1, zero = 0;
    check(function<SetStreamFunction>(library_, "cublasSetStream_v2")(handle_, stream), "cuBLAS");
    const auto gemm = function<GemmExFunction>(library_, "cublasGemmEx");
    check(gemm(handle_, kTransposed, kPlain, n_, n_, n_, &one, a_.as(), kBf16, n_, b_.as(), kBf16,
               n_, &zero, c_.as(), kBf16, n_, kCompute32f, kDefaultAlgorithm),
          "cublasGemmEx");
}

}  // namespace quire::gpu_bench
