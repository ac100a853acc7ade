// Tokens that stay 16 bit whatever the codec: the first ones, which attention leans on (sinks), and
// the newest ones. The same for every candidate, and counted in the bits that are reported.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace quire::bench {

inline constexpr uint32_t kSpanTokens = 64;  // of a step
inline constexpr uint32_t kSinkTokens = 16;  // never coded, unless told otherwise

struct ExactTokens {
    uint32_t sinks = kSinkTokens;
    // The span at hand and whole ones before it.
    uint32_t tail = kSpanTokens;

    // Those behind the span at hand.
    uint32_t closed_tail() const { return tail - kSpanTokens; }
    // At the end of a sequence, on average: the span at hand is then half full.
    double mean() const { return sinks + tail - kSpanTokens / 2.0; }

    friend bool operator==(const ExactTokens&, const ExactTokens&) = default;
};

// For a text of which the second half is judged. invalid, naming the option: no multiple of what
// codecs take together (16 sinks, spans of the tail), or so many that the judged half would begin
// before anything is coded.
Status check_exact_tokens(const ExactTokens& exact, uint32_t text_tokens);

}  // namespace quire::bench
