// The smallest values that every layer shares.
#pragma once

#include <cstdint>
#include <span>

namespace quire {

using TokenId = int32_t;  // as GGUF vocabularies and ggml use it
using TokenSpan = std::span<const TokenId>;

}  // namespace quire
