#include "bench/eval/exact_tokens.h"

#include <fmt/format.h>

#include "codec/codec.h"

namespace quire::bench {

Status check_exact_tokens(const ExactTokens& exact, uint32_t text_tokens) {
    if (exact.sinks % codec::kGroupTokens != 0)
        return make_error(Code::invalid,
                          fmt::format("--sink-tokens {}: not a multiple of {}; 0 keeps none exact",
                                      exact.sinks, codec::kGroupTokens));
    if (exact.tail == 0 || exact.tail % kSpanTokens != 0)
        return make_error(Code::invalid,
                          fmt::format("--tail-tokens {}: not a multiple of {}, the span at hand, "
                                      "which is always exact",
                                      exact.tail, kSpanTokens));
    if (uint64_t{exact.sinks} + exact.tail >= text_tokens / 2 + uint64_t{kSpanTokens})
        return make_error(
            Code::invalid,
            fmt::format("--sink-tokens {} and --tail-tokens {} leave nothing coded before the "
                        "second half of {} tokens, which is judged: take fewer, or more --tokens",
                        exact.sinks, exact.tail, text_tokens));
    return {};
}

}  // namespace quire::bench
