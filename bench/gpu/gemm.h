// A bf16 matrix product that keeps all tensor cores busy: cuBLAS where the dynamic linker finds it,
// else a kernel of our own.
#pragma once

#include <memory>
#include <string>

#include "device_data.h"

namespace quire::gpu_bench {

class Gemm {
 public:
    // C = A B of n x n each; n a multiple of 128.
    explicit Gemm(int n);
    ~Gemm();
    Gemm(const Gemm&) = delete;
    Gemm& operator=(const Gemm&) = delete;

    void queue(cudaStream_t stream) const;
    std::string name() const {
        return (handle_ != nullptr ? "cuBLAS " : "own ") + std::to_string(n_) + "^3";
    }
    double flops() const { return 2.0 * n_ * n_ * n_; }

 private:
    int n_;
    DeviceBuffer a_, b_, c_;
    void* library_ = nullptr;
    void* handle_ = nullptr;
};

}  // namespace quire::gpu_bench
