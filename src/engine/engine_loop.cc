// The engine's thread: messages, movers, admission, one step, again.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_core.h"
#include "policy/preempt.h"

namespace quire {
namespace {

constexpr int64_t kIdleWait_ns = 1'000'000'000;
constexpr uint32_t kLearnRowsMin = 32;  // smaller steps say little about prefill speed
constexpr double kLearnRate = 0.2;
constexpr int64_t kSnapshotAge_ns = 100'000'000;
constexpr int64_t kLoadWait_ns = 20'000'000;  // a mover's wake-up ends it sooner

}  // namespace

void EngineCore::run() {
    bool worked = true;
    while (!stopping_.load(std::memory_order_relaxed)) {
        take_snapshot(!worked);
        if (!worked) {
            lanes_.front()->forward->pause();  // the workers of all
            const bool expecting =
                !active_.empty() || waiting() > 0 || !flushes_.empty() || !drains_.empty();
            mailbox_.wait(expecting ? kLoadWait_ns : kIdleWait_ns);
        }
        worked = turn();
    }
    while (!active_.empty()) finish(*active_.front(), Finish::cancelled);
    for (auto& lane : lanes_) {
        while (!lane->queue.empty()) {
            active_.push_back(std::move(lane->queue.front()));
            lane->queue.pop_front();
            finish(*active_.back(), Finish::cancelled);
        }
    }
    // Late commands still get their answers.
    for (Command& command : mailbox_.drain()) command();
}

// Metrics and status read a copy, so that they never wait for a step. `now`: whatever its age.
void EngineCore::take_snapshot(bool now) {
    const int64_t at_ns = options_.clock->monotonic_ns();
    if (!now && at_ns - snapshot_ns_ < kSnapshotAge_ns) return;
    snapshot_ns_ = at_ns;
    EngineStats copy = stats_;
    copy.running = active_.size();
    copy.waiting = waiting();
    copy.cache = {};
    for (const auto& lane : lanes_) {
        const CacheStats cache = lane->cache->stats();
        copy.codecs.push_back({active_in(*lane), lane->queue.size(), cache.g1_capacity_bytes,
                               cache.g1_used_bytes, cache.lookup_tokens, 0, 0});
        for (const uint64_t tokens : cache.hit_tokens) copy.codecs.back().hit_tokens += tokens;
        copy.codecs.back().g1_hit_tokens = cache.hit_tokens[static_cast<int>(Tier::g1)];
        copy.cache += cache;
    }
    copy.tiers = tiers_->stats();
    copy.tier_names = tiers_->names();
    std::lock_guard lock(snapshot_mutex_);
    snapshot_ = std::move(copy);
}

bool EngineCore::turn() {
    for (Command& command : mailbox_.drain()) command();
    poll_caches();
    check_deadlines();
    finish_flushes();
    finish_drains();
    hurry_stores();
    admit();
    for (auto& job : active_) note_ready(*job);
    running_.store(static_cast<uint32_t>(active_.size()), std::memory_order_relaxed);
    return step();
}

// Stores wait for prompts of any lane: they compute on the same cores.
void EngineCore::poll_caches() {
    const bool prompts = std::any_of(active_.begin(), active_.end(), [](const auto& job) {
        return job->started && job->first_token_ns == 0;
    });
    for (auto& lane : lanes_) {
        const std::vector<LeaseId> expired = lane->cache->poll(prompts);
        for (auto& job : active_)
            if (job->lane == lane.get() && std::ranges::count(expired, job->lease) > 0)
                job->expired = true;
    }
}

size_t EngineCore::waiting() const {
    size_t jobs = 0;
    for (const auto& lane : lanes_) jobs += lane->queue.size();
    return jobs;
}

size_t EngineCore::active_in(const Lane& lane) const {
    return static_cast<size_t>(
        std::ranges::count_if(active_, [&](const auto& job) { return job->lane == &lane; }));
}

// Blocks enough for the prompt and a first token, or nobody else to wait for. Who gave up its pages
// comes back when somebody has finished, or when all could go on for a while: else it would load,
// compute and be sent away again with every block that an older one takes.
bool EngineCore::room_for(const Job& job) const {
    const Lane& lane = *job.lane;
    const size_t active = active_in(lane);
    if (active == 0) return true;
    auto tokens = static_cast<uint32_t>(job.tokens.size()) + 1;
    if (job.preemptions > 0 && job.finished_before == lane.finished)
        tokens += 2 * lane.info.block_tokens * static_cast<uint32_t>(active + 1);
    return lane.cache->has_room(tokens);
}

// The lane whose first waiting job came before the others' and has room. A lane that is full holds
// up nobody but its own.
Lane* EngineCore::next_to_admit() const {
    Lane* next = nullptr;
    for (const auto& lane : lanes_) {
        if (lane->queue.empty() || !room_for(*lane->queue.front())) continue;
        if (!next || lane->queue.front()->id < next->queue.front()->id) next = lane.get();
    }
    return next;
}

void EngineCore::admit() {
    while (active_.size() < options_.max_running) {
        Lane* lane = next_to_admit();
        if (!lane) return;
        std::unique_ptr<Job> job = std::move(lane->queue.front());
        lane->queue.pop_front();
        Job& admitted = *job;
        active_.push_back(std::move(job));
        AcquireRequest request;
        request.prompt = admitted.tokens;
        request.tenant = admitted.request.tenant;
        request.salt = admitted.request.cache_salt;
        request.deadline_ns = admitted.deadline_ns;
        request.reuse = !admitted.request.prompt_logprobs;
        auto lease = lane->cache->acquire(request);
        if (!lease.ok()) {
            finish(admitted, Finish::error, lease.error());
            continue;
        }
        admitted.lease = *lease;
        if (admitted.admitted_ns == 0) admitted.admitted_ns = options_.clock->monotonic_ns();
    }
}

void EngineCore::note_ready(Job& job) {
    const LeaseInfo& lease = job.lane->cache->info(job.lease);
    if (lease.state != LeaseState::ready || job.computed > 0) return;
    job.computed = lease.cached_tokens;
    if (job.started) return;
    job.started = true;
    job.ready_ns = job.entered_ns > 0 ? job.entered_ns : options_.clock->monotonic_ns();
    for (int t = 0; t < kTierCount; ++t) {
        job.timing.cached_tokens[t] = lease.tokens_by_tier[t];
        job.timing.load_bytes[t] = lease.bytes_by_tier[t];
        job.timing.load_ns[t] = lease.load_ns_by_tier[t];
    }
    job.timing.miss_reason = miss_reason_name(lease.miss);
    stats_.prompt_tokens += job.prompt_tokens;
}

// Pages for `tokens` tokens of the job, taken from its lane's younger jobs if need be. False: not
// now.
bool EngineCore::make_room(Job& job, uint32_t tokens) {
    Cache& cache = *job.lane->cache;
    for (;;) {
        if (cache.grow(job.lease, tokens).ok()) return true;
        const auto youngest = std::find_if(active_.rbegin(), active_.rend(), [&](const auto& held) {
            return held->lane == job.lane;
        });
        if (youngest->get() == &job) {
            // Older jobs will finish, or movers will let go of the pages they hold.
            if (active_in(*job.lane) > 1 || cache.moving()) return false;
            finish(
                job, Finish::error,
                make_error(Code::full, "the request needs more KV memory than --kv-memory gives"));
            return false;
        }
        preempt(**youngest);
    }
}

// Sends a job back to the queue. What it computed stays in the cache while there is room; it is
// copied below first when reading it back is cheaper than computing it again.
void EngineCore::preempt(Job& job) {
    Lane& lane = *job.lane;
    ++stats_.preemptions;
    ++job.preemptions;
    job.finished_before = lane.finished;
    const uint64_t bytes = uint64_t{job.computed} * lane.cache->layout().bytes_per_token();
    if (spill_pays(job.computed, bytes, lane.cache->cost())) {
        lane.cache->spill(job.lease);
        ++stats_.spilled;
    }
    lane.cache->release(job.lease);
    job.lease = 0;
    job.computed = 0;
    job.late_load = false;
    const auto it = std::find_if(active_.begin(), active_.end(),
                                 [&](const auto& held) { return held.get() == &job; });
    lane.queue.push_front(std::move(*it));
    active_.erase(it);
}

// Who could take part in the next step, in order of arrival.
std::vector<EngineCore::Part> EngineCore::candidates(const Lane& lane) const {
    std::vector<Part> parts;
    for (const auto& job : active_)
        if (job->lane == &lane && lane.cache->info(job->lease).state == LeaseState::ready)
            parts.push_back({job.get(), 0, job->computed});
    return parts;
}

// Who takes part in the next step, and with how many tokens each; their pages exist.
std::vector<EngineCore::Part> EngineCore::choose_parts(Lane& lane) {
    const StepBounds bounds{options_.step_tokens, options_.max_running,
                            static_cast<uint32_t>(lane.forward->config().max_logit_rows)};
    std::vector<Part> parts = candidates(lane);
    add_landing(lane, parts, bounds);
    const std::vector<uint32_t> take = plan_step(asks_of(parts), bounds);

    // Making room may preempt or finish jobs that were to take part: ask again who is left.
    const auto active = [this](const Part& part) {
        return std::any_of(active_.begin(), active_.end(),
                           [&](const auto& job) { return job.get() == part.job; });
    };
    for (size_t i = 0; i < parts.size(); ++i)
        if (take[i] > 0 && active(parts[i]) && make_room(*parts[i].job, parts[i].from + take[i]))
            parts[i].tokens = take[i];
    std::erase_if(parts, [&](const Part& part) { return part.tokens == 0 || !active(part); });
    return parts;
}

std::vector<StepCandidate> EngineCore::asks_of(const std::vector<Part>& parts) {
    std::vector<StepCandidate> asks;
    for (const Part& part : parts)
        asks.push_back({static_cast<uint32_t>(part.job->tokens.size()) - part.from,
                        part.job->decoding(), part.job->request.prompt_logprobs});
    return asks;
}

StepSequence EngineCore::lay_out(const Part& part) {
    const Job& job = *part.job;
    const Cache& cache = *job.lane->cache;
    StepSequence sequence;
    sequence.tokens = TokenSpan(job.tokens).subspan(part.from, part.tokens);
    sequence.first_pos = static_cast<int32_t>(part.from);
    for (uint32_t g = 0; g < cache.layout().groups.size(); ++g)
        sequence.slabs[g] = cache.table(job.lease, g).data();
    if (job.request.prompt_logprobs && !job.decoding())
        sequence.n_logit_rows = static_cast<int32_t>(part.tokens);
    else if (part.from + part.tokens == job.tokens.size())
        sequence.n_logit_rows = 1;
    return sequence;
}

// Lanes take turns: the one whose last step is longest ago goes first. False: nobody could take
// part.
bool EngineCore::step() {
    std::vector<Lane*> turns;
    for (const auto& lane : lanes_) turns.push_back(lane.get());
    std::ranges::stable_sort(turns, {}, &Lane::last_step);
    return std::ranges::any_of(turns, [this](Lane* lane) { return step(*lane); });
}

// One pass of the model.
bool EngineCore::step(Lane& lane) {
    const std::vector<Part> parts = choose_parts(lane);
    if (parts.empty()) return false;
    std::vector<StepSequence> sequences;
    StepSize size;
    for (const Part& part : parts) {
        sequences.push_back(lay_out(part));
        size.rows += part.tokens;
        if (part.tokens == 1) continue;
        size.prompt_rows += part.tokens;
        size.prompt_row_keys += uint64_t{part.tokens} * part.from;
    }
    const std::unique_ptr<StepGate> gate = make_gate(lane, parts);
    // Behind a gate pages may turn out to be damaged.
    if (learning_) learning_->begin_step(gate ? std::span<const StepSequence>() : sequences);
    const int64_t begin_ns = options_.clock->monotonic_ns();
    const auto result = lane.forward->step(sequences, gate.get());
    const int64_t waited_ns = gate ? gate->waited_ns() : 0;
    if (learning_) learning_->end_step();
    stats_.overlap_wait_ns += static_cast<uint64_t>(waited_ns);
    note_step(lane, size, options_.clock->monotonic_ns() - begin_ns - waited_ns);

    size_t row = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        Job& job = *parts[i].job;
        if (!result.ok()) {
            finish(job, Finish::error, result.error());
            continue;
        }
        const auto n_rows = static_cast<uint32_t>(sequences[i].n_logit_rows);
        const auto logits =
            result->logits.subspan(row * info_.vocab_size, size_t{n_rows} * info_.vocab_size);
        row += n_rows;
        if (parts[i].landing) {
            const bool dropped = std::ranges::count(result->dropped, i) > 0;
            job.entered_ns = begin_ns;
            if (!settle_landing(job, dropped, gate->late())) continue;
        }
        const uint32_t before = std::min(job.computed, job.prompt_tokens);
        job.computed += parts[i].tokens;
        stats_.computed_prompt_tokens += std::min(job.computed, job.prompt_tokens) - before;
        lane.cache->commit(job.lease, job.computed);
        if (n_rows > 0) take_logits(job, logits, n_rows);
    }
    return true;
}

// Counts a step, and keeps the planner's idea of compute speed near what steps really take.
void EngineCore::note_step(Lane& lane, const StepSize& size, int64_t elapsed_ns) {
    lane.last_step = ++stats_.steps;
    stats_.forward_ns += static_cast<uint64_t>(elapsed_ns);
    if (options_.metrics) {
        options_.metrics->histogram(Metric::step_seconds)
            .observe(static_cast<double>(elapsed_ns) / 1e9);
        options_.metrics->histogram(Metric::step_tokens).observe(size.rows);
    }
    if (size.rows < kLearnRowsMin)
        lane.small_step_ns += kLearnRate * (static_cast<double>(elapsed_ns) - lane.small_step_ns);
    if (size.prompt_rows < kLearnRowsMin) return;
    CostModel& cost = lane.cache->cost();
    const double attention_ns =
        cost.prefill_ns_per_token_per_key * static_cast<double>(size.prompt_row_keys);
    const double rest_ns = std::max(0.0, static_cast<double>(elapsed_ns) - attention_ns);
    const double seen = std::max(rest_ns / size.prompt_rows, 0.1 * cost.prefill_ns_per_token);
    cost.prefill_ns_per_token += kLearnRate * (seen - cost.prefill_ns_per_token);
}

void EngineCore::check_deadlines() {
    const int64_t now = options_.clock->monotonic_ns();
    const auto late = [&](const Job& job) {
        return (job.deadline_ns > 0 && now >= job.deadline_ns) || job.expired;
    };
    std::vector<Job*> over;
    for (auto& job : active_)
        if (job->cancelled || late(*job)) over.push_back(job.get());
    for (auto& lane : lanes_) {
        for (auto it = lane->queue.begin(); it != lane->queue.end();) {
            if (!(*it)->cancelled && !late(**it)) {
                ++it;
                continue;
            }
            over.push_back(it->get());
            active_.push_back(std::move(*it));
            it = lane->queue.erase(it);
        }
    }
    for (Job* job : over) {
        if (job->cancelled)
            finish(*job, Finish::cancelled);
        else
            finish(*job, Finish::timeout,
                   make_error(Code::timeout,
                              "the request took longer than --request-timeout; raise it, or send a "
                              "shorter prompt or a smaller max_tokens"));
    }
}

// What is waited for is not packed at leisure.
void EngineCore::hurry_stores() {
    const bool awaited = !drains_.empty() || !flushes_.empty();
    if (awaited != hurrying_) tiers_->hurry(awaited);
    hurrying_ = awaited;
}

void EngineCore::finish_drains() {
    if (drains_.empty()) return;
    const bool idle = active_.empty() && waiting() == 0;
    const bool stored = std::ranges::none_of(
        lanes_, [](const auto& lane) { return lane->cache->stats().pending_stores > 0; });
    const int64_t now = options_.clock->monotonic_ns();
    for (auto it = drains_.begin(); it != drains_.end();) {
        const bool over = now >= (*it)->give_up_ns;
        if (over) {
            for (auto& job : active_) job->cancelled = true;
            for (auto& lane : lanes_)
                for (auto& job : lane->queue) job->cancelled = true;
        }
        // What is published and pending goes down before we leave.
        if (!idle || (!over && !stored)) {
            ++it;
            continue;
        }
        (*it)->done.set_value();
        it = drains_.erase(it);
    }
}

void EngineCore::finish_flushes() {
    if (flushes_.empty()) return;
    // What is stored for the oldest is stored for all.
    bool stored = true;
    for (auto& lane : lanes_) stored = lane->cache->store_all(flushes_.front()->pass) && stored;
    const int64_t now = options_.clock->monotonic_ns();
    const auto over = std::stable_partition(
        flushes_.begin(), flushes_.end(),
        [&](const auto& flush) { return !stored && now < flush->give_up_ns; });
    if (over == flushes_.end()) return;
    std::vector<uint64_t> dropped;
    for (auto it = over; it != flushes_.end(); ++it) dropped.push_back(drop_all((*it)->tiers));
    take_snapshot(true);  // who was answered finds it in the status
    for (auto it = over; it != flushes_.end(); ++it)
        (*it)->done.set_value(dropped[static_cast<size_t>(it - over)]);
    flushes_.erase(over, flushes_.end());
}

uint64_t EngineCore::drop_all(std::span<const Tier> tiers) {
    uint64_t dropped = 0;
    size_t failed = 0;
    for (auto& lane : lanes_) {
        failed += lane->cache->end_pass();
        for (Tier tier : tiers) dropped += lane->cache->flush(tier);
    }
    if (failed > 0) log::warn("flush_not_stored", "{} blocks could not be written back", failed);
    return dropped;
}

}  // namespace quire
