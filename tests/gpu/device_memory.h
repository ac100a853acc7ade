// Device memory for tests: freed with the object, errors end the test.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "check.h"

namespace quire::gpu_testing {

inline void check_cuda(int error, const char* what) {
    CHECK(error == 0, what << ": " << cudaGetErrorString(static_cast<cudaError_t>(error)));
}

template <class T>
class DeviceArray {
 public:
    explicit DeviceArray(const std::vector<T>& from) : n_(from.size()) {
        check_cuda(cudaMalloc(&data_, n_ * sizeof(T) + 1), "cudaMalloc");
        check_cuda(cudaMemcpy(data_, from.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "copy");
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* data() const { return static_cast<T*>(data_); }
    // Waits for the device.
    std::vector<T> read() const {
        std::vector<T> out(n_);
        check_cuda(cudaMemcpy(out.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "copy");
        return out;
    }

 private:
    size_t n_;
    void* data_ = nullptr;
};

}  // namespace quire::gpu_testing
