// For tests: the families' mathematics once more, in double precision and the plainest loops.
#pragma once

#include <vector>

#include "core/types.h"
#include "engine/model/tiny_model.h"

namespace quire::test {

// Logits at every position of one sequence. K and V are rounded to 16-bit floats as pages store
// them. REQUIRES: a model with F32 matrices.
std::vector<std::vector<float>> naive_logits(const TinyModel& model, TokenSpan tokens);

}  // namespace quire::test
