// Text that a model writes by itself, with an exact 16-bit cache: what it is judged on is then as
// likely to it as its own answers are.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

struct OwnTextOptions {
    uint32_t threads = 1;
    uint32_t tokens = 2048;  // that the model writes; those of prompts come on top
    uint64_t seed = 1;
    // Begin the text and, in turn, go on with it where the model ended, each with a seed of its
    // own. At least one, none of them empty.
    std::vector<std::vector<TokenId>> prompts;
    std::function<bool(TokenId)> ends;       // that token is no part of the text; may be empty
    std::function<void(uint64_t)> computed;  // told how many more tokens were written; may be empty
};

// Sampled at temperature 1. The same for the same model and options. Each token was drawn with all
// before it as its context. invalid: no prompt, or the model's context has no room for that much,
// or the model ends its texts before there is that much.
Result<std::vector<TokenId>> write_own_text(const GgufModel& model, const OwnTextOptions& options);

}  // namespace quire::bench
