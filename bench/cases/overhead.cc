// What the cache costs when nothing repeats: time to first token with every tier on over cache off.
//
// Two engines take turns on the same prompt, each going first every other time; no prompt is ever
// seen twice by the same engine. The ratio is the median of the pairs' ratios, so that a slow spell
// of the machine touches both sides alike.
#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "bench/cases/tiered_engine.h"
#include "bench/generate.h"
#include "bench/stats.h"
#include "bench/text.h"

namespace quire::bench {
namespace {

constexpr size_t kPromptTokens = 1024;
constexpr uint32_t kPairsMin = 15;
constexpr uint64_t kFirstSeed = 500'000;
constexpr double kOverheadBar = 1.01;

class OverheadRun {
 public:
    OverheadRun(const BenchOptions& options, const BenchModel& model, const std::string& dir)
        : options_(options), model_(model), on_(options, model, dir), off_(options, model, dir) {
        off_.options().cache = false;
        off_.options().disk_dir.clear();
        off_.options().host_memory_bytes = 0;
    }

    Result<BarRow> run() {
        QUIRE_TRY(on_.open());
        QUIRE_TRY(off_.open());
        QUIRE_TRY(on_.warm_up());
        QUIRE_TRY(off_.warm_up());
        const uint32_t pairs = options_.quick ? 2 : std::max(options_.repeats, kPairsMin);
        for (uint32_t i = 0; i < pairs; ++i) {
            options_.progress(fmt::format("{}: pair {} of {}", model_.name, i + 1, pairs));
            auto prompt =
                prompt_of(off_.engine(), passage(kFirstSeed + i, kPromptTokens * 8), kPromptTokens);
            if (!prompt.ok()) return prompt.error();
            for (bool cached : {i % 2 == 0, i % 2 != 0})
                QUIRE_TRY(measure(cached ? on_ : off_, *prompt, cached ? on_s_ : off_s_));
        }
        return paired_row(fmt::format("{}: cold TTFT, every tier on / cache off, {} tokens",
                                      model_.name, kPromptTokens),
                          "s", median(on_s_), median(off_s_), median_ratio(on_s_, off_s_),
                          Comparison::at_most, kOverheadBar);
    }

 private:
    Status measure(TieredEngine& tiered, const std::vector<TokenId>& prompt,
                   std::vector<double>& into) {
        auto answer = generate(tiered.engine(), greedy_request(prompt, 1), kAnswerWait_ns);
        if (!answer.ok()) return answer.error();
        for (uint32_t cached : answer->timing.cached_tokens)
            if (cached > 0) return make_error(Code::bug, "a prompt that never repeats was a hit");
        into.push_back(static_cast<double>(answer->timing.first_token_ns) * 1e-9);
        return {};
    }

    const BenchOptions& options_;
    const BenchModel& model_;
    TieredEngine on_;
    TieredEngine off_;
    std::vector<double> on_s_;
    std::vector<double> off_s_;
};

}  // namespace

Result<std::vector<BarRow>> run_overhead(const BenchOptions& options) {
    std::vector<BarRow> rows;
    for (const BenchModel& model : options.models) {
        auto scratch = ScratchFolder::create(options.scratch_dir);
        if (!scratch.ok()) return scratch.error();
        auto row = OverheadRun(options, model, scratch->path()).run();
        rows.push_back(row.ok() ? *row
                                : failed_row(model.name + ": overhead", row.error().message));
    }
    return rows;
}

}  // namespace quire::bench
