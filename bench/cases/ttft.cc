// What a hit is worth: time to first token cold, from G1, G2, and G3 after a restart; what the
// loads cost beside a plain copy and a plain read of the same bytes; equal tokens everywhere.
//
// Each round is a cold run under a salt of its own, then the three hits on what it left, then both
// ceilings, so that every ratio is between neighbours in time.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "bench/cases/identity.h"
#include "bench/cases/tiered_engine.h"
#include "bench/ceilings.h"
#include "bench/generate.h"
#include "bench/stats.h"
#include "bench/text.h"
#include "tier/disk/disk_reference.h"

namespace quire::bench {
namespace {

constexpr size_t kPromptTokens = 4096;
constexpr size_t kQuickPromptTokens = 512;
// As HostOptions::threads: what copies between G2 and G1.
constexpr uint32_t kCopyThreads = 2;
constexpr double kHitBar = 0.01;
constexpr double kHostBar = 0.8;
constexpr double kDiskBar = 0.85;

struct Samples {
    std::vector<double> cold_s, g1_s, g2_s, g3_s;  // to the first token
    std::vector<double> host_load_s, disk_load_s;  // of the loads alone
    std::vector<double> copy_s, read_s;            // ceilings
    uint64_t host_bytes = 0, disk_bytes = 0;
    bool equal_tokens = true;
    std::string wrong_tier;  // what a hit was served from instead; empty: as wanted
};

double first_token_s(const Answer& answer) {
    return static_cast<double>(answer.timing.first_token_ns) * 1e-9;
}

class TtftRun {
 public:
    TtftRun(const BenchOptions& options, const BenchModel& model, const std::string& dir)
        : options_(options), model_(model), dir_(dir), tiered_(options, model, dir) {}

    Result<std::vector<BarRow>> run() {
        QUIRE_TRY(tiered_.open());
        auto prompt = prompt_of(tiered_.engine(), whole_text(),
                                options_.quick ? kQuickPromptTokens : kPromptTokens);
        if (!prompt.ok()) return prompt.error();
        prompt_ = std::move(prompt).value();
        auto sweep = CacheSweep::create();
        if (!sweep.ok()) return sweep.error();
        QUIRE_TRY(tiered_.warm_up());
        for (uint32_t i = 0; i < options_.repeats; ++i) {
            options_.progress(fmt::format("{}: round {} of {}: cold, G1, G2, G3 after a restart",
                                          model_.name, i + 1, options_.repeats));
            QUIRE_TRY(round(i, *sweep));
        }
        return rows();
    }

 private:
    Result<Answer> ask(uint32_t salt) {
        GenerateRequest request = greedy_request(prompt_, 4);
        request.cache_salt = std::to_string(salt);
        return generate(tiered_.engine(), std::move(request), kAnswerWait_ns);
    }

    // A hit must come from `tier`, all of it but the last block.
    Result<Answer> hit(uint32_t salt, Tier tier) {
        auto answer = ask(salt);
        if (!answer.ok()) return answer;
        const uint32_t cached = answer->timing.cached_tokens[static_cast<int>(tier)];
        if (cached + 16 < prompt_.size() && samples_.wrong_tier.empty())
            samples_.wrong_tier =
                fmt::format("only {} of {} tokens came from {} ({})", cached, prompt_.size(),
                            tier_name(tier), answer->timing.miss_reason);
        samples_.equal_tokens &= answer->tokens == cold_tokens_;
        return answer;
    }

    Status round(uint32_t salt, CacheSweep& sweep) {
        auto cold = ask(salt);
        if (!cold.ok()) return cold.error();
        cold_tokens_ = cold->tokens;
        samples_.cold_s.push_back(first_token_s(*cold));
        auto g1 = hit(salt, Tier::g1);
        if (!g1.ok()) return g1.error();
        samples_.g1_s.push_back(first_token_s(*g1));

        QUIRE_TRY(tiered_.leave_only(Tier::g2));
        sweep.run();
        auto g2 = hit(salt, Tier::g2);
        if (!g2.ok()) return g2.error();
        samples_.g2_s.push_back(first_token_s(*g2));
        QUIRE_TRY(note_load(*g2, Tier::g2, samples_.host_load_s, samples_.host_bytes));
        QUIRE_TRY(copy(sweep));

        QUIRE_TRY(tiered_.leave_only(Tier::g3));
        QUIRE_TRY(tiered_.restart());
        QUIRE_TRY(tiered_.warm_up());
        auto g3 = hit(salt, Tier::g3);
        if (!g3.ok()) return g3.error();
        samples_.g3_s.push_back(first_token_s(*g3));
        QUIRE_TRY(note_load(*g3, Tier::g3, samples_.disk_load_s, samples_.disk_bytes));
        return read();
    }

    Status note_load(const Answer& answer, Tier tier, std::vector<double>& load_s,
                     uint64_t& bytes) {
        const auto t = static_cast<int>(tier);
        bytes = answer.timing.load_bytes[t];
        load_s.push_back(static_cast<double>(answer.timing.load_ns[t]) * 1e-9);
        if (bytes == 0)
            return make_error(Code::bug, model_.name + ": nothing was loaded from " +
                                             std::string(tier_name(tier)) + " (" +
                                             answer.timing.miss_reason + ")");
        return {};
    }

    Status copy(CacheSweep& sweep) {
        if (!copy_) {
            auto made = CopyCeiling::create(samples_.host_bytes, kCopyThreads);
            if (!made.ok()) return made.error();
            copy_ = std::move(made).value();
        }
        sweep.run();
        samples_.copy_s.push_back(copy_->seconds());
        return {};
    }

    Status read() {
        if (!read_) {
            auto io = make_io_engine({});
            if (!io.ok()) return io.error();
            io_ = std::move(io).value();
            // As the disk tier reads: neighbours grouped to 2 MiB, 16 in flight.
            auto made = DirectReadReference::create({dir_, samples_.disk_bytes, 2 << 20, 16}, *io_);
            if (!made.ok()) return made.error();
            read_.emplace(std::move(made).value());
        }
        auto rate = read_->read_once();
        if (!rate.ok()) return rate.error();
        samples_.read_s.push_back(static_cast<double>(samples_.disk_bytes) / *rate);
        return {};
    }

    std::vector<BarRow> rows() const {
        const Samples& s = samples_;
        const double cold_s = median(s.cold_s);
        const auto name = [&](std::string_view what) {
            return fmt::format("{}: {}", model_.name, what);
        };
        std::vector<BarRow> rows;
        rows.push_back(ratio_row(name(fmt::format("G1 hit / cold, {} tokens", prompt_.size())), "s",
                                 median(s.g1_s), cold_s, Comparison::at_most, kHitBar));
        rows.push_back(info_row(name("G2 hit / cold"), "s", median(s.g2_s), cold_s));
        rows.push_back(info_row(name("G3 hit after restart / cold"), "s", median(s.g3_s), cold_s));
        const auto rate = [](uint64_t bytes, const std::vector<double>& seconds) {
            return static_cast<double>(bytes) * 1e-9 / median(seconds);
        };
        rows.push_back(paired_row(name("G2 load, share of memcpy"), "GB/s",
                                  rate(s.host_bytes, s.host_load_s), rate(s.host_bytes, s.copy_s),
                                  median_ratio(s.copy_s, s.host_load_s), Comparison::at_least,
                                  kHostBar));
        rows.push_back(paired_row(name("G3 load, share of O_DIRECT read"), "GB/s",
                                  rate(s.disk_bytes, s.disk_load_s), rate(s.disk_bytes, s.read_s),
                                  median_ratio(s.read_s, s.disk_load_s), Comparison::at_least,
                                  kDiskBar));
        if (!s.wrong_tier.empty())
            rows.push_back(failed_row(name("hits come from the tier asked for"), s.wrong_tier));
        if (!s.equal_tokens)
            rows.push_back(failed_row(name("tokens of the long prompt"), "hits differ from cold"));
        return rows;
    }

    const BenchOptions& options_;
    const BenchModel& model_;
    const std::string& dir_;
    TieredEngine tiered_;
    std::vector<TokenId> prompt_;
    std::vector<TokenId> cold_tokens_;
    std::unique_ptr<CopyCeiling> copy_;
    std::unique_ptr<IoEngine> io_;
    std::optional<DirectReadReference> read_;
    Samples samples_;
};

}  // namespace

Result<std::vector<BarRow>> run_ttft(const BenchOptions& options) {
    std::vector<BarRow> rows;
    for (const BenchModel& model : options.models) {
        auto scratch = ScratchFolder::create(options.scratch_dir);
        if (!scratch.ok()) return scratch.error();
        auto measured = TtftRun(options, model, scratch->path()).run();
        append(rows, model.name + ": time to first token", std::move(measured));
        auto identical = identity_row(options, model, scratch->path() + "/identity");
        rows.push_back(identical.ok() ? *identical
                                      : failed_row(model.name + ": greedy tokens identical",
                                                   identical.error().message));
    }
    return rows;
}

}  // namespace quire::bench
