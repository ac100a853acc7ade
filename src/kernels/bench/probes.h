// What the machine can do at most: the ceilings that kernels are held against.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace quire::kernels::bench {

struct Probes {
    // Reads n bytes (a multiple of 512, 64-byte aligned) with the ISA's full width; the result
    // depends on all of them.
    uint64_t (*read)(const std::byte* p, size_t n);
    // Runs `rounds` rounds of independent fused multiply-adds; returns the floating-point
    // operations.
    double (*multiply_add)(int64_t rounds);
};

// Of the widest ISA not above `isa` for which there are probes.
const Probes& probes(Isa isa);

extern const Probes kAvx2Probes;
extern const Probes kAvx512Probes;

}  // namespace quire::kernels::bench
