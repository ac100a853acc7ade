// The instruction sets that we have code for, narrowest first, and which of them this CPU runs.
#pragma once

#include <cstdint>

namespace quire {

enum class Isa : uint8_t { ref, avx2, avx512 };

// "ref", "avx2", "avx512".
const char* isa_name(Isa isa);

// Whether this CPU, and the operating system under it, runs what we compile for `isa`: avx2 comes
// with FMA and F16C, avx512 is F, BW, VL and DQ on top of that. Any thread.
bool cpu_has(Isa isa);

}  // namespace quire
