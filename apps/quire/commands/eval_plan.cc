#include "apps/quire/commands/eval_plan.h"

#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "bench/eval/kv_pages.h"

namespace quire::commands {
namespace {

constexpr size_t kFewTokens = 64, kMoreTokens = 192;
constexpr uint64_t kWorthTiming = 10 * (2 * kFewTokens + kMoreTokens);

std::optional<int64_t> time_tokens(const GgufModel& model, const std::vector<TokenId>& text,
                                   size_t tokens, uint32_t threads) {
    const std::vector<TokenId> first(text.begin(),
                                     text.begin() + static_cast<std::ptrdiff_t>(tokens));
    const int64_t begin_ns = system_clock().monotonic_ns();
    if (!bench::pages_of(model, first, threads, {}).ok()) return std::nullopt;
    return system_clock().monotonic_ns() - begin_ns;
}

}  // namespace

std::string plan_text(const EvalPlan& plan) {
    std::string text = fmt::format(
        "{} tokens in spans of 64, once with the exact cache and once with each of {} others; the "
        "last {} are judged.\n{} tokens through the model",
        plan.tokens, plan.caches, plan.tokens - plan.tokens / 2, plan.all());
    if (plan.learning + plan.measures > 0)
        text += fmt::format(" (text {}, learning {}, continuations and keys {})", plan.judged,
                            plan.learning, plan.measures);
    if (plan.ns_a_token > 0)
        text +=
            fmt::format(": roughly {}", format_duration(static_cast<int64_t>(
                                            plan.ns_a_token * static_cast<double>(plan.all()))));
    return text + "\n";
}

double time_a_token(const GgufModel& model, const std::vector<TokenId>& text, uint32_t threads,
                    uint64_t planned_tokens) {
    if (planned_tokens < kWorthTiming || text.size() < kMoreTokens) return 0;
    // The first also warms up; what both of the others take to begin cancels.
    if (!time_tokens(model, text, kFewTokens, threads)) return 0;
    const auto few = time_tokens(model, text, kFewTokens, threads);
    const auto more = time_tokens(model, text, kMoreTokens, threads);
    if (!few || !more || *more <= *few) return 0;
    return static_cast<double>(*more - *few) / static_cast<double>(kMoreTokens - kFewTokens);
}

}  // namespace quire::commands
