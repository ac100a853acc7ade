#include "bench/cases/identity.h"

#include <fmt/format.h>

#include "bench/cases/tiered_engine.h"
#include "bench/generate.h"
#include "bench/text.h"

namespace quire::bench {
namespace {

constexpr uint32_t kPrompts = 32;
constexpr uint32_t kAnswerTokens = 64;
constexpr uint64_t kFirstSeed = 1000;
constexpr size_t kShortestTokens = 200;  // each prompt is a few tokens longer than the one before

Result<std::vector<Answer>> ask_all(Engine& engine, uint32_t prompts) {
    std::vector<GenerateRequest> requests;
    for (uint32_t i = 0; i < prompts; ++i) {
        const size_t n_tokens = kShortestTokens + i * 7;
        auto prompt = prompt_of(engine, passage(kFirstSeed + i, n_tokens * 8), n_tokens);
        if (!prompt.ok()) return prompt.error();
        requests.push_back(greedy_request(std::move(prompt).value(), kAnswerTokens));
    }
    return generate_all(engine, std::move(requests), kAnswerWait_ns);
}

// Of the prompts, all full blocks but the last come from the tier.
bool is_hit(const Answer& answer, Tier tier) {
    return answer.timing.cached_tokens[static_cast<int>(tier)] + 32 > answer.timing.prompt_tokens;
}

struct Tally {
    uint32_t equal = 0;
    std::string note;
};

void compare(const std::vector<Answer>& cold, const std::vector<Answer>& hits, Tier tier,
             Tally& tally) {
    for (size_t i = 0; i < cold.size(); ++i) {
        if (hits[i].tokens == cold[i].tokens && is_hit(hits[i], tier)) {
            ++tally.equal;
        } else if (tally.note.empty()) {
            tally.note = fmt::format("prompt {} from {}: {}", i, tier_name(tier),
                                     is_hit(hits[i], tier)
                                         ? "the tokens differ"
                                         : fmt::format("no hit ({})", hits[i].timing.miss_reason));
        }
    }
}

}  // namespace

Result<BarRow> identity_row(const BenchOptions& options, const BenchModel& model,
                            const std::string& dir) {
    const uint32_t prompts = options.quick ? 4 : kPrompts;
    TieredEngine tiered(options, model, dir);
    QUIRE_TRY(tiered.open());
    options.progress(
        fmt::format("{}: {} prompts x {} tokens, cold", model.name, prompts, kAnswerTokens));
    auto cold = ask_all(tiered.engine(), prompts);
    if (!cold.ok()) return cold.error();
    Tally tally;
    for (Tier tier : {Tier::g1, Tier::g2, Tier::g3}) {
        options.progress(fmt::format("{}: the same from {}", model.name, tier_name(tier)));
        QUIRE_TRY(tiered.leave_only(tier));
        if (tier == Tier::g3) QUIRE_TRY(tiered.restart());
        auto hits = ask_all(tiered.engine(), prompts);
        if (!hits.ok()) return hits.error();
        compare(*cold, *hits, tier, tally);
    }
    BarRow row = ratio_row(fmt::format("{}: greedy tokens identical cold/G1/G2/G3, {} prompts x {}",
                                       model.name, prompts, kAnswerTokens),
                           "", tally.equal, 3.0 * prompts, Comparison::at_least, 1.0);
    row.note = tally.note;
    return row;
}

}  // namespace quire::bench
