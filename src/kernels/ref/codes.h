// Single numbers of compressed pages, for the oracle.
#pragma once

#include "kernels/attention.h"

namespace quire::kernels::ref {

// A code as attention multiplies it: a Lloyd level, or the integer as stored, from 0 on.
struct CodedNumber {
    float stored = 0.0f;
    float offset = 0.0f;  // what is stored too much: half the range of integers, 0 for levels
    float scale = 1.0f;
};

CodedNumber coded_k(const AttnShape& shape, const std::byte* page, int token, int d);
CodedNumber coded_v(const AttnShape& shape, const std::byte* page, int token, int d);

// The codec's rotation, in place; its own inverse.
void rotate(float* row, int head_dim);

}  // namespace quire::kernels::ref
