#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "device_data.h"
#include "rows.h"

namespace quire::gpu_bench {
namespace {

constexpr size_t kBytes = size_t{4} << 30;

__global__ void noise_kernel(uint32_t* data, size_t words, bool f16) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
         i += size_t{gridDim.x} * blockDim.x) {
        uint64_t x = i * 0x9e3779b97f4a7c15 + 0x1234567;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        const auto word = static_cast<uint32_t>(x >> 29);
        data[i] = f16 ? (word & 0x83ff83ff) | 0x34003400 : word;
    }
}

__global__ void __launch_bounds__(512)
    read_kernel(const uint4* data, size_t vectors, uint32_t* out) {
    uint32_t sum = 0;
    const size_t stride = size_t{gridDim.x} * blockDim.x;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i + 3 * stride < vectors;
         i += 4 * stride) {
        uint4 held[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) held[j] = __ldcs(data + i + j * stride);
#pragma unroll
        for (const uint4& x : held) sum ^= x.x ^ x.y ^ x.z ^ x.w;
    }
    if (sum == 0x12345678) *out = sum;
}

}  // namespace

void check(int error, const char* what) {
    if (error == 0) return;
    std::fprintf(stderr, "GPU bench: %s: %s\n", what,
                 cudaGetErrorString(static_cast<cudaError_t>(error)));
    std::exit(3);
}

double seconds(void (*step)(void*), void* context) {
    constexpr int kRuns = 5, kSteps = 16;
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    std::vector<double> times;
    step(context);
    check(cudaDeviceSynchronize(), "a kernel");
    for (int run = 0; run < kRuns; ++run) {
        step(context);  // while it runs the others are queued, so that no time of the CPU's counts
        check(cudaEventRecord(begin), "record");
        for (int i = 0; i < kSteps; ++i) step(context);
        check(cudaEventRecord(end), "record");
        check(cudaEventSynchronize(end), "a kernel");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin, end), "time");
        times.push_back(ms * 1e-3 / kSteps);
    }
    check(cudaEventDestroy(begin), "event");
    check(cudaEventDestroy(end), "event");
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

void fill_noise(void* data, size_t bytes, bool f16) {
    noise_kernel<<<1024, 256>>>(static_cast<uint32_t*>(data), bytes / sizeof(uint32_t), f16);
    check(cudaGetLastError(), "noise");
}

Machine measure_machine() {
    Machine machine;
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "a GPU");
    machine.device = properties.name;
    machine.multiprocessors = properties.multiProcessorCount;
    const DeviceBuffer from(kBytes), to(kBytes);
    for (const int each : {4, 8}) {
        const double read = seconds([&] {
            read_kernel<<<machine.multiprocessors * each, 512>>>(
                from.as<const uint4>(), kBytes / sizeof(uint4), to.as<uint32_t>());
        });
        machine.read_bytes_per_s = std::max(machine.read_bytes_per_s, kBytes / read);
    }
    const double copy = seconds([&] {
        check(cudaMemcpyAsync(to.as(), from.as(), kBytes, cudaMemcpyDeviceToDevice, nullptr),
              "copy");
    });
    machine.copy_bytes_per_s = 2.0 * kBytes / copy;
    return machine;
}

}  // namespace quire::gpu_bench
