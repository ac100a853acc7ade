// Which tokens of which requests go into the next step. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

struct StepBounds {
    uint32_t tokens = 512;  // in all
    uint32_t sequences = 64;
    uint32_t logit_rows = 64;
};

// A request that could take part, in order of arrival.
struct StepCandidate {
    uint32_t pending_tokens = 0;  // tokens without KV yet, >= 1
    bool decoding = false;        // its prompt is done: exactly one pending token
    bool all_logits = false;      // wants logits of every prompt row
};

// Tokens to take of each candidate, in order (0: none). Decodes first, one token each, so that
// running answers never wait for a long prompt; then prompts first come, first served, with what is
// left.
std::vector<uint32_t> plan_step(std::span<const StepCandidate> candidates,
                                const StepBounds& bounds);

}  // namespace quire
