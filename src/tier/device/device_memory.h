// One region of a GPU's memory, given back whole. The addresses are the device's: the CPU only
// counts with them. Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"

namespace quire {

class DeviceMemory {
 public:
    // full: the device has not that much left.
    static Result<DeviceMemory> create(uint64_t bytes);

    DeviceMemory() = default;
    // REQUIRES: nothing queued on the device reads or writes it any more.
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    DeviceMemory& operator=(DeviceMemory&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    std::span<std::byte> bytes() const { return bytes_; }

 private:
    explicit DeviceMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
    std::span<std::byte> bytes_;
};

}  // namespace quire
