// For tests: the families' mathematics once more, in double precision and the plainest loops.
#pragma once

#include <vector>

#include "core/types.h"
#include "engine/model/kv_coding.h"
#include "engine/model/tiny_model.h"

namespace quire::test {

// Logits at every position of one sequence. K and V are rounded to 16-bit floats as pages store
// them; with a coding, those that a position reads as codes are what the codec decodes instead.
// REQUIRES: a model with F32 matrices.
std::vector<std::vector<float>> naive_logits(const TinyModel& model, TokenSpan tokens,
                                             const KvCoding& coding = {});

}  // namespace quire::test
