// How much `quire eval` is going to do, said before it begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"
#include "engine/model/gguf_model.h"

namespace quire::commands {

struct EvalPlan {
    uint32_t tokens = 0;    // of the text
    size_t caches = 0;      // judged beside the exact one
    uint64_t judged = 0;    // tokens through the model: the text, once for each cache
    uint64_t learning = 0;  // the same of means and sensitivity
    uint64_t measures = 0;  // of continuations and keys, at most
    double ns_a_token = 0;  // 0: not known

    uint64_t all() const { return judged + learning + measures; }
};

// One or two lines, which end in a newline.
std::string plan_text(const EvalPlan& plan);

// What a token of the text takes with the exact cache, from the first few hundred; 0 where that
// would take long beside the work itself, or fails, which the work then says.
double time_a_token(const GgufModel& model, const std::vector<TokenId>& text, uint32_t threads,
                    uint64_t planned_tokens);

}  // namespace quire::commands
