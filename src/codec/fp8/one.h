// One number to an 8-bit float and back, as the oracles of all families do it.
#pragma once

#include <cstdint>

#include "codec/fp8/format.h"

namespace quire::codec::fp8 {

// Nearest, ties to the even code, beyond the largest finite number that number; a NaN stays one.
uint8_t code_of(const Format& format, float x);
float value_of(const Format& format, uint8_t code);

}  // namespace quire::codec::fp8
