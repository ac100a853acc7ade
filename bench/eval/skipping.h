// A candidate that leaves some layers 16 bit, as `quire serve --kv-skip-layers` does.
#pragma once

#include <memory>
#include <vector>

#include "bench/eval/candidate.h"

namespace quire::bench {

// `inner` takes rows one head at a time: not ec.
std::unique_ptr<Candidate> skipping_candidate(std::unique_ptr<Candidate> inner,
                                              std::vector<uint32_t> layers);

}  // namespace quire::bench
