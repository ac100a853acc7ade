// Are cached answers the cold answers, token for token?
#pragma once

#include <string>

#include "bench/bench.h"

namespace quire::bench {

// 32 prompts x 64 greedy tokens, all at once: cold, from G1, from G2, from G3 after a restart. The
// row counts the hits that equal the cold answer and came from the tier they should.
Result<BarRow> identity_row(const BenchOptions& options, const BenchModel& model,
                            const std::string& dir);

}  // namespace quire::bench
