// Stands in for src/kernels/cuda/ptx/bulk.cuh, as far as kernels that run here need it.
#pragma once

namespace quire::kernels::cuda {

// Where a block's dynamic shared memory begins on a GPU.
inline constexpr uint32_t kSharedStart = 1024;

inline uint32_t shared_address(const void* p) {
    return kSharedStart +
           static_cast<uint32_t>(static_cast<const std::byte*>(p) - emulator::dynamic_shared());
}
inline std::byte* at_shared_address(uint32_t address) {
    return emulator::dynamic_shared() + (address - kSharedStart);
}

struct Barrier {
    uint16_t arrivals, missing;
    uint32_t phase;

    void init(uint32_t n) {
        arrivals = missing = static_cast<uint16_t>(n);
        phase = 0;
    }
    void arrive() {
        if (--missing != 0) return;
        missing = arrivals;
        ++phase;
    }
    void wait(uint32_t parity) const {
        while ((phase & 1) == parity) emulator::pause();
    }
};
static_assert(sizeof(Barrier) == 8);

inline void fence_barriers() {}

}  // namespace quire::kernels::cuda
