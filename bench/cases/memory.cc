// Does memory stay where the budgets say? Resident size under a mixed load of short requests with
// shared prefixes, some of them cancelled, over tiers small enough that everything is evicted all
// the time.
#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/cases/cases.h"
#include "bench/cases/tiered_engine.h"
#include "bench/generate.h"
#include "bench/stats.h"
#include "bench/text.h"

namespace quire::bench {
namespace {

constexpr uint64_t kBudgetBytes = uint64_t{128} << 20;  // of G1, and of G2
constexpr double kOverBar = 300.0 * (1 << 20);
constexpr double kGrowthBar = 16.0 * (1 << 20);
constexpr uint32_t kInFlight = 16;
constexpr uint32_t kFamilies = 64;  // prompts that share a prefix
constexpr size_t kFamilyTokens = 192;
constexpr size_t kSampleCount = 200;
constexpr uint64_t kSeed = 7;
constexpr int64_t kSettleWait_ns = int64_t{60} * 1'000'000'000;

uint64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    uint64_t all_pages = 0, resident_pages = 0;
    file >> all_pages >> resident_pages;
    return resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Counts requests in flight; shared with the sinks.
struct InFlight {
    std::mutex mutex;
    std::condition_variable changed;
    uint32_t open = 0;
    uint64_t errors = 0;
};

class MixedLoad {
 public:
    MixedLoad(const BenchOptions& options, Engine& engine)
        : options_(options), engine_(engine), flight_(std::make_shared<InFlight>()) {}

    Status prepare() {
        for (uint32_t i = 0; i < kFamilies; ++i) {
            auto prompt = prompt_of(engine_, passage(i, kFamilyTokens * 8), kFamilyTokens);
            if (!prompt.ok()) return prompt.error();
            families_.push_back(std::move(prompt).value());
        }
        return {};
    }

    // Resident sizes, evenly spaced over the run.
    Result<std::vector<double>> run() {
        const int64_t start_ns = system_clock().monotonic_ns();
        const int64_t whole_ns = options_.minutes * 60 * int64_t{1'000'000'000};
        std::vector<double> samples;
        double done = 0;  // share of the run
        for (uint64_t n = 0; done < 1; ++n) {
            QUIRE_TRY(wait_below(kInFlight));
            QUIRE_TRY(submit_one());
            const auto ns = static_cast<double>(system_clock().monotonic_ns() - start_ns);
            done = whole_ns > 0
                       ? ns / static_cast<double>(whole_ns)
                       : static_cast<double>(n + 1) / static_cast<double>(options_.requests);
            if (done * kSampleCount < static_cast<double>(samples.size() + 1)) continue;
            samples.push_back(static_cast<double>(resident_bytes()));
            if (samples.size() % 10 == 0)
                options_.progress(fmt::format("{:.0f} %, {} requests, resident {}", done * 100,
                                              n + 1, format_quantity(samples.back(), "B")));
        }
        QUIRE_TRY(wait_below(1));
        return samples;
    }

    uint64_t errors() const { return flight_->errors; }

 private:
    Status wait_below(uint32_t bound) {
        std::unique_lock lock(flight_->mutex);
        const bool room = flight_->changed.wait_for(lock, std::chrono::minutes(5),
                                                    [&] { return flight_->open < bound; });
        return room ? Status{} : make_error(Code::timeout, "no request ended within 5 minutes");
    }

    Status submit_one() {
        const auto& family = families_[draw_() % kFamilies];
        const size_t keep = 16 + draw_() % (family.size() - 16);
        std::vector<TokenId> prompt(family.begin(), family.begin() + keep);
        for (uint64_t extra = draw_() % 24; extra > 0; --extra)
            prompt.push_back(families_[0][draw_() % kFamilyTokens]);
        GenerateRequest request = greedy_request(std::move(prompt), 1 + draw_() % 4);
        request.sampling.temperature = draw_() % 2 == 0 ? 0.0f : 1.0f;
        request.sampling.seed = draw_();
        request.tenant = draw_() % 4 == 0 ? "other" : "";
        {
            std::lock_guard lock(flight_->mutex);
            ++flight_->open;
        }
        auto id = engine_.submit(std::move(request), [flight = flight_](GenerateEvent&& event) {
            if (event.finish == Finish::none) return;
            std::lock_guard lock(flight->mutex);
            --flight->open;
            flight->errors += event.finish == Finish::error || event.finish == Finish::timeout;
            flight->changed.notify_all();
        });
        if (!id.ok()) return id.error();
        if (draw_() % 10 == 0) engine_.cancel(*id);
        return {};
    }

    const BenchOptions& options_;
    Engine& engine_;
    std::shared_ptr<InFlight> flight_;
    std::vector<std::vector<TokenId>> families_;
    std::mt19937_64 draw_{kSeed};
};

// The last quarter over the second: the first fills the tiers.
double growth(const std::vector<double>& samples) {
    const auto quarter = static_cast<std::ptrdiff_t>(samples.size() / 4);
    const auto first = samples.begin();
    return median({samples.end() - quarter, samples.end()}) -
           median({first + quarter, first + 2 * quarter});
}

Result<std::vector<BarRow>> measure(const BenchOptions& options, const BenchModel& model) {
    auto scratch = ScratchFolder::create(options.scratch_dir);
    if (!scratch.ok()) return scratch.error();
    const auto before = static_cast<double>(resident_bytes());
    TieredEngine tiered(options, model, scratch->path());
    tiered.options().kv_memory_bytes = kBudgetBytes;
    tiered.options().host_memory_bytes = kBudgetBytes;
    QUIRE_TRY(tiered.open());
    MixedLoad load(options, tiered.engine());
    QUIRE_TRY(load.prepare());
    auto samples = load.run();
    if (!samples.ok()) return samples.error();
    const double peak = *std::max_element(samples->begin(), samples->end());
    const auto model_bytes = static_cast<double>(tiered.engine().model().file_bytes);

    std::vector<BarRow> rows;
    rows.push_back(value_row(model.name + ": peak RSS - model - budgets", "B",
                             peak - model_bytes - 2.0 * kBudgetBytes, Comparison::at_most,
                             kOverBar));
    rows.back().note =
        fmt::format("peak {}, {} before the model, model file {}, budgets {}",
                    format_quantity(peak, "B"), format_quantity(before, "B"),
                    format_quantity(model_bytes, "B"), format_quantity(2.0 * kBudgetBytes, "B"));
    rows.push_back(value_row(model.name + ": growth, last quarter over second", "B",
                             growth(*samples), Comparison::at_most, kGrowthBar));
    // What stores still hold is not left over.
    tiered.engine().drain(kSettleWait_ns);
    const EngineStats stats = tiered.engine().stats();
    rows.push_back(value_row(model.name + ": leases and pinned blocks left", "",
                             static_cast<double>(stats.cache.leases + stats.cache.pinned_blocks),
                             Comparison::at_most, 0));
    rows.push_back(value_row(model.name + ": requests that failed", "",
                             static_cast<double>(load.errors()), Comparison::at_most, 0));
    return rows;
}

}  // namespace

Result<std::vector<BarRow>> run_memory(const BenchOptions& options) {
    std::vector<BarRow> rows;
    for (const BenchModel& model : options.models) {
        BenchOptions own = options;
        if (options.quick) own.requests = 400;
        append(rows, model.name + ": resident memory", measure(own, model));
    }
    return rows;
}

}  // namespace quire::bench
