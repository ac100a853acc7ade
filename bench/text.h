// Real text for prompts: Quire's own documents, compiled in, so that a run needs no files and two
// runs of one build see the same words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire::bench {

// The documents one after the other, about 10,000 tokens.
std::string_view whole_text();

// At least `min_bytes` of sentences of whole_text() in an order drawn from `seed`, after a first
// line that names the seed. Different seeds share no prefix beyond that line's first words, the
// same seed gives the same text.
std::string passage(uint64_t seed, size_t min_bytes);

}  // namespace quire::bench
