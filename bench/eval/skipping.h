// A candidate that leaves some layers 16 bit, as `quire serve --kv-skip-layers` does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/eval/candidate.h"

namespace quire::bench {

// What its name ends with; nothing where no layer is skipped.
std::string skipped_suffix(const std::vector<uint32_t>& layers);

// `inner` must do without the skipped layers' rows: ec only where it was made so.
std::unique_ptr<Candidate> skipping_candidate(std::unique_ptr<Candidate> inner,
                                              std::vector<uint32_t> layers);

}  // namespace quire::bench
