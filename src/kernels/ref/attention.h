// The scalar oracle of paged attention. Slow, and the definition of the order of operations.
#pragma once

#include "kernels/attention.h"

namespace quire::kernels::ref {

const AttentionOps& attention();

// The shared exponential and hyperbolic tangent (attention_math.h), for tests of their accuracy.
float exp2_nonpositive(float x);
float tanh_via_exp2(float x);

}  // namespace quire::kernels::ref
