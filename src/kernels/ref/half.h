// 16-bit floats, as this layer's oracle and tests call them.
#pragma once

#include "core/half.h"

namespace quire::kernels::ref {

using quire::bf16_to_f32;
using quire::f16_to_f32;
using quire::f32_to_bf16;
using quire::f32_to_f16;
using quire::from_f32;
using quire::to_f32;

}  // namespace quire::kernels::ref
