// What this machine, or the container we run in, has to give. Read once per call; any thread.
#pragma once

#include <cstdint>

namespace quire {

// Physical memory, or the control group's limit if that is lower.
uint64_t machine_memory_bytes();
// Cores this process may run on, at least 1.
uint32_t machine_cores();

}  // namespace quire
