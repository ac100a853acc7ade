// The tables of kernels, each defined in the file of its instruction set.
#pragma once

#include "codec/ec/kernels.h"
#include "codec/isa_checks.h"

namespace quire::codec::ec {

// Bounds of the largest number of a token in history.
inline constexpr float kHistorySmallest = 0x1p-60f;
inline constexpr float kHistoryLargest = 0x1p60f;
inline constexpr float kHistorySteps = 127;

Kernels ref_kernels();

}  // namespace quire::codec::ec
