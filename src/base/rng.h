// Rng: xoshiro256** seeded through splitmix64. Small, fast, the same sequence on every machine; for
// tests, simulation, sampling and workloads, never for keys. Not thread-safe: one per owner.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace quire {

class Rng {
 public:
    using result_type = uint64_t;

    explicit Rng(uint64_t seed) {
        for (uint64_t& word : state_) word = splitmix(seed);
    }

    uint64_t next() {
        const uint64_t result = rotate(state_[1] * 5, 7) * 9;
        const uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // Uniform in [0, bound), without bias.
    // REQUIRES: bound > 0.
    uint64_t below(uint64_t bound) {
        const uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound
        for (;;) {
            const uint64_t value = next();
            if (value >= rejected) return value % bound;
        }
    }

    // Uniform in [0, 1), 53 bits.
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

    // For standard distributions and shuffles.
    uint64_t operator()() { return next(); }
    static constexpr uint64_t min() { return 0; }
    static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }

    // One step of splitmix64: advances `state` and returns its output.
    static constexpr uint64_t splitmix(uint64_t& state) {
        state += 0x9e3779b97f4a7c15;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

 private:
    static constexpr uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

    std::array<uint64_t, 4> state_{};
};

}  // namespace quire
