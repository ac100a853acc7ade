// Which tokens of a group of 16 a job touches. Always inlined: files of several instruction sets
// use it.
#pragma once

#include "codec/codec.h"

namespace quire::codec {

struct TokenRange {
    uint32_t first;
    uint32_t last;

    [[gnu::always_inline]] constexpr bool whole() const { return last - first == kGroupTokens; }
};

// Tokens of `group` that are in [first, last).
[[gnu::always_inline]] constexpr TokenRange tokens_in(uint32_t group, uint32_t first,
                                                      uint32_t last) {
    const uint32_t begin = group * kGroupTokens, end = begin + kGroupTokens;
    return {first > begin ? first : begin, last < end ? last : end};
}

}  // namespace quire::codec
