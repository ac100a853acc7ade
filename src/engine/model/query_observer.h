// Lets a measurement see a step's queries as attention does.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.h"

namespace quire {

class QueryObserver {
 public:
    virtual ~QueryObserver() = default;
    // Once per layer of a step, by one thread, while others compute on: it must not wait for
    // anything. Queries are after norms and RoPE; the last layer has those of rows with logits
    // only. They are borrowed for the call.
    virtual void see(uint32_t layer, const kernels::AttnShape& shape,
                     std::span<const kernels::AttnSequence> sequences) = 0;
};

}  // namespace quire
