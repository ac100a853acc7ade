// Device memory of a bench, filled with noise: data that is alike would be faster than real data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime.h>

#include "rows.h"

namespace quire::gpu_bench {

// Fills with random bytes; with `f16`, with numbers of size 1/4 to 1/2 in 16 bit, either sign.
void fill_noise(void* data, size_t bytes, bool f16);

class DeviceBuffer {
 public:
    explicit DeviceBuffer(size_t bytes, bool f16 = false) : bytes_(bytes) {
        check(cudaMalloc(&data_, bytes), "device memory");
        fill_noise(data_, bytes, f16);
    }
    template <class T>
    explicit DeviceBuffer(const std::vector<T>& from) : bytes_(from.size() * sizeof(T)) {
        check(cudaMalloc(&data_, bytes_), "device memory");
        check(cudaMemcpy(data_, from.data(), bytes_, cudaMemcpyHostToDevice), "copy");
    }
    ~DeviceBuffer() { cudaFree(data_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;

    template <class T = std::byte>
    T* as() const {
        return static_cast<T*>(data_);
    }
    size_t bytes() const { return bytes_; }

 private:
    size_t bytes_;
    void* data_ = nullptr;
};

}  // namespace quire::gpu_bench
