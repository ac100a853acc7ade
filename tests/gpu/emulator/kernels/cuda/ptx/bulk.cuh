// Stands in for src/kernels/cuda/ptx/bulk.cuh, as far as kernels that run here need it: addresses
// and barriers.
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
    uint64_t state;  // arrivals of a phase, those still to come, the number of the phase

    void init(uint32_t arrivals) { set(arrivals, arrivals, 0); }
    void arrive() {
        const auto all = static_cast<uint32_t>(state & 0xffff);
        const auto left = static_cast<uint32_t>(state >> 16 & 0xffff) - 1;
        const uint64_t phase = state >> 32;
        set(all, left == 0 ? all : left, left == 0 ? phase + 1 : phase);
    }
    void wait(uint32_t parity) const {
        const auto* now = static_cast<const volatile uint64_t*>(&state);
        while ((*now >> 32 & 1) == parity) emulator::pause();
    }

 private:
    void set(uint32_t all, uint32_t left, uint64_t phase) {
        state = uint64_t{all} | uint64_t{left} << 16 | phase << 32;
    }
};
inline void fence_barriers() {}

}  // namespace quire::kernels::cuda
