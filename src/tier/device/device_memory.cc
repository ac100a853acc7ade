#include "tier/device/device_memory.h"

#include <string>

#include <cuda_runtime_api.h>

namespace quire {

Result<DeviceMemory> DeviceMemory::create(uint64_t bytes) {
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error != cudaSuccess) {
        cudaGetLastError();  // told here; it is nobody else's
        return make_error(Code::full,
                          "the device refuses " + std::to_string(bytes) + " bytes (" +
                              cudaGetErrorString(error) + "): ask for less",
                          error);
    }
    return DeviceMemory({static_cast<std::byte*>(data), bytes});
}

DeviceMemory::~DeviceMemory() {
    cudaFree(bytes_.data());
}

}  // namespace quire
