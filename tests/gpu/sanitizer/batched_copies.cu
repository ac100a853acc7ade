// Does compute-sanitizer's initcheck follow copies in batches? Each way of filling device memory
// that is then copied to the host, alone:
//
//   nvcc -arch=sm_90a -std=c++20 tests/gpu/sanitizer/batched_copies.cu -o batched_copies
//   for way in copy kernel batch batch-back never; do
//       compute-sanitizer --tool initcheck ./batched_copies $way
//   done
//
// `copy`, `kernel` and `batch-back` are silent. `batch`, whose bytes arrive, gets the 2,048 errors
// that `never` gets (CUDA 13.0): the tool takes memory that a batch filled for never written.
#include <cstdio>
#include <cstring>
#include <string>

#include <cuda_runtime.h>

namespace {

constexpr size_t kBytes = 64 << 10, kPieces = 16;

void check(cudaError_t error, const char* what) {
    if (error != cudaSuccess) std::printf("%s: %s\n", what, cudaGetErrorString(error));
}

__global__ void fill(const uint4* from, uint4* to) {
    to[blockIdx.x * blockDim.x + threadIdx.x] = from[blockIdx.x * blockDim.x + threadIdx.x];
}

void copy_in_batch(std::byte* to, std::byte* from, cudaStream_t stream) {
    void *tos[kPieces], *froms[kPieces];
    size_t bytes[kPieces];
    for (size_t i = 0; i < kPieces; ++i) {
        tos[i] = to + i * (kBytes / kPieces);
        froms[i] = from + i * (kBytes / kPieces);
        bytes[i] = kBytes / kPieces;
    }
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
    check(cudaMemcpyBatchAsync(tos, froms, bytes, kPieces, &attributes, &first, 1, stream),
          "batch");
}

}  // namespace

int main(int argc, char** argv) {
    const std::string way = argc > 1 ? argv[1] : "copy";
    void *host, *back, *device;
    cudaStream_t stream;
    check(cudaMallocHost(&host, kBytes), "host");
    check(cudaMallocHost(&back, kBytes), "host");
    check(cudaMalloc(&device, kBytes), "device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    std::memset(host, 0x5a, kBytes);
    std::memset(back, 0, kBytes);
    auto *from = static_cast<std::byte*>(host), *to = static_cast<std::byte*>(device);
    if (way == "copy" || way == "batch-back")
        check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyHostToDevice, stream), "copy");
    if (way == "kernel")
        fill<<<kBytes / 16 / 256, 256, 0, stream>>>(static_cast<const uint4*>(host),
                                                    static_cast<uint4*>(device));
    if (way == "batch") copy_in_batch(to, from, stream);
    if (way == "batch-back")
        copy_in_batch(static_cast<std::byte*>(back), to, stream);
    else
        check(cudaMemcpyAsync(back, to, kBytes, cudaMemcpyDeviceToHost, stream), "back");
    check(cudaStreamSynchronize(stream), "wait");
    std::printf("%s: the bytes are %s\n", way.c_str(),
                std::memcmp(host, back, kBytes) == 0 ? "those that were sent" : "others");
}
