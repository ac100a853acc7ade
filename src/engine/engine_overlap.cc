// Steps that begin while some of their requests' pages are still being loaded.
#include <algorithm>
#include <thread>
#include <utility>

#include "engine/engine_core.h"
#include "policy/overlap.h"

namespace quire {
namespace {

// After its last layer landed, a load's last report is on its way.
constexpr int64_t kSettleMax_ns = 1'000'000'000;
constexpr int kCopyThreads = 2;  // as HostOptions::threads

// From what whole prompts took, or steps of few rows, whose cost is not in their rows. Too little
// rather than too much: attention to a long prefix is not counted.
double predict_step_ns(const Lane& lane, uint32_t rows) {
    return std::max(rows * lane.cache->cost().prefill_ns_per_token, lane.small_step_ns);
}

// Asking the machine reads a file, tens of microseconds: for loads, not for every token.
bool spare_cores(uint32_t threads) {
    return std::cmp_greater(std::thread::hardware_concurrency(), threads + kCopyThreads - 1);
}

}  // namespace

// Whether another lane could step now: it waits while this one does.
bool EngineCore::others_ready(const Lane& lane) const {
    return std::ranges::any_of(active_, [&](const auto& job) {
        return job->lane != &lane && job->lane->cache->info(job->lease).state == LeaseState::ready;
    });
}

// Adds the jobs whose loads the step would hide.
void EngineCore::add_landing(const Lane& lane, std::vector<Part>& parts,
                             const StepBounds& bounds) const {
    if (options_.overlap == LoadOverlap::never) return;
    const bool company = !parts.empty() || others_ready(lane);
    uint32_t rows = 0;
    for (const uint32_t taken : plan_step(asks_of(parts), bounds)) rows += taken;
    for (const auto& job : active_) {
        if (job->lane != &lane) continue;
        const LeaseInfo& lease = lane.cache->info(job->lease);
        if (lease.state != LeaseState::loading || job->late_load) continue;
        const auto pending = static_cast<uint32_t>(job->tokens.size()) - lease.cached_tokens;
        if (rows >= bounds.tokens) return;
        const uint32_t with_it = std::min(rows + pending, bounds.tokens);
        const LoadLeft left = lane.cache->load_left(job->lease);
        const OverlapPlan plan = plan_overlap({.load_left_ns = left.ns,
                                               .compute_ns = predict_step_ns(lane, with_it),
                                               .company = company,
                                               .copying = left.copying,
                                               .spare_cores = spare_cores(options_.threads),
                                               .at_once = left.at_once});
        const bool enter = plan.enter || options_.overlap == LoadOverlap::always;
        if (!enter) continue;
        const auto wait_ns = static_cast<int64_t>(
            options_.overlap == LoadOverlap::always ? kOverlapWaitMax_ns : plan.wait_max_ns);
        parts.push_back({job.get(), 0, lease.cached_tokens, true, wait_ns});
        rows = with_it;
    }
}

std::unique_ptr<StepGate> EngineCore::make_gate(Lane& lane, const std::vector<Part>& parts) const {
    std::vector<LeaseId> leases;
    int64_t wait_ns = 0;
    for (const Part& part : parts) {
        leases.push_back(part.landing ? part.job->lease : 0);
        wait_ns = std::max(wait_ns, part.landing_wait_ns);
    }
    if (wait_ns == 0) return nullptr;
    return std::make_unique<StepGate>(*lane.cache, *options_.clock, std::move(leases), wait_ns);
}

// After the step: true when the job's pages all landed, so that what was computed on them counts.
// Otherwise it stands where it stood before the step, and its lease loads on or was planned anew.
bool EngineCore::settle_landing(Job& job, bool dropped, bool late) {
    if (dropped || !job.lane->cache->settle(job.lease, kSettleMax_ns)) {
        ++stats_.overlap_dropped;
        job.late_load = late;
        job.entered_ns = 0;
        return false;
    }
    ++stats_.overlapped;
    note_ready(job);
    return true;
}

}  // namespace quire
