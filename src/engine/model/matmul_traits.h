// How to multiply by a weight matrix so that a row's bits do not depend on how many rows are beside
// it.
//
// A cache hit computes fewer rows at once than a cold prompt, and a decode computes one row per
// request, so this independence is what makes their results equal bit for bit. ggml has several
// kernels per type and picks by row count; whether they agree differs by type, CPU and build.
// Measured on AVX-512: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 agree at all row counts; F16, BF16, F32 and
// IQ4_NL differ between 1 row and more; K-quants differ between fewer than 8 rows and more. So each
// matrix is probed when it is loaded, with its own bytes, and gets the cheapest plan that holds:
// nothing to do, or never fewer than 2, or than 8, rows, the rest being padding whose results are
// thrown away. Only matrices that have no packed layout come here (packed/layout.h).
#pragma once

#include <cstdint>

#include "base/result.h"

struct ggml_tensor;

namespace quire {

inline constexpr int32_t kTiledRows = 8;  // from here on ggml multiplies K-quants tile-wise

struct MatmulTraits {
    int32_t min_rows = 1;  // pad to this many
};

// unsupported: no plan makes this matrix independent of the row count; the message names the type.
Result<MatmulTraits> probe_matmul(const ggml_tensor* weights);

}  // namespace quire
