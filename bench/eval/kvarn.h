// KVarN (arXiv 2606.03458) as a peer: tiles of tokens and dimensions, normalised along both.
#pragma once

#include <memory>

#include "bench/eval/candidate.h"

namespace quire::bench {

// Tiles of 64 tokens, which is what a finished span has. REQUIRES: widths from 1 to 8.
std::unique_ptr<Candidate> kvarn_candidate(int k_bits, int v_bits);

}  // namespace quire::bench
