// Bounds on one call of a tokenizer, whose time grows with the text. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace quire {

struct TokenizeLimits {
    // Once there are more tokens than this, the rest of the text is left out.
    size_t tokens_max = SIZE_MAX;
    // Asked every few hundred bytes, on the thread that tokenizes; anything but Code::ok ends the
    // call with that code. Empty: never asked.
    std::function<Code()> stop;
};

}  // namespace quire
