// From logits to events: sampling, text, stop conditions, the last event.
#include <algorithm>

#include "engine/engine_core.h"

namespace quire {

void EngineCore::take_logits(Job& job, std::span<const float> rows, uint32_t n_rows) {
    event_ = {};
    if (n_rows > 1 || job.computed < job.prompt_tokens) add_prompt_logprobs(job, rows, n_rows);
    if (job.computed == job.tokens.size()) {
        emit_token(job, rows.subspan(size_t{n_rows - 1} * info_.vocab_size));
    } else if (!event_.tokens.empty()) {
        job.sink(std::move(event_));
    }
}

// The raw bytes of the token are its text here: a client may join them to whole characters.
TokenLogprob EngineCore::logprob_row(const Job& job, std::span<const float> logits,
                                     TokenId token) const {
    Logprobs found = logprobs_of(logits, token, std::max(0, job.request.sampling.logprobs));
    return {token, std::string(vocab_->piece(token)), found.chosen, std::move(found.top)};
}

// Row r of a prompt chunk predicts the token after it; the first token of a prompt has no
// prediction. Rows that are computed again, after a preemption, were told already.
void EngineCore::add_prompt_logprobs(Job& job, std::span<const float> rows, uint32_t n_rows) {
    if (!job.request.prompt_logprobs) return;
    const uint32_t first = job.computed - n_rows;
    for (uint32_t r = 0; r < n_rows && first + r + 1 < job.prompt_tokens; ++r) {
        if (first + r + 1 < job.told_prompt_tokens) continue;
        job.told_prompt_tokens = first + r + 2;
        const TokenId token = job.tokens[first + r + 1];
        event_.tokens.push_back(token);
        event_.logprobs.push_back(
            logprob_row(job, rows.subspan(size_t{r} * info_.vocab_size, info_.vocab_size), token));
    }
}

void EngineCore::emit_token(Job& job, std::span<const float> logits) {
    const bool enough = job.generated() >= job.request.min_tokens;
    const bool may_end = enough && !job.request.sampling.ignore_eos;
    const Result<TokenId> sampled =
        job.sampler->sample(logits, may_end ? std::span<const TokenId>() : end_tokens_);
    if (!sampled.ok()) return finish(job, Finish::error, sampled.error());
    const TokenId token = *sampled;
    job.sampler->accept(token);
    if (job.first_token_ns == 0) job.first_token_ns = options_.clock->monotonic_ns();
    job.tokens.push_back(token);
    job.lane->cache->append(job.lease, token);
    ++stats_.generated_tokens;

    Finish how = Finish::none;
    event_.tokens.push_back(token);
    if (job.request.sampling.logprobs >= 0)
        event_.logprobs.push_back(logprob_row(job, logits, token));
    if (may_end && vocab_->is_end(token)) {
        how = Finish::stop;
    } else {
        const std::string text = job.utf8.push(vocab_->piece(token));
        event_.text += enough ? job.stops.feed(text) : text;
        if (job.stops.stopped())
            how = Finish::stop;
        else if (job.generated() >= job.request.max_tokens)
            how = Finish::length;
    }
    if (how != Finish::none) return finish(job, how);
    job.sink(std::move(event_));
    event_ = {};
}

void EngineCore::fill_timing(Job& job) {
    const int64_t now = options_.clock->monotonic_ns();
    RequestTiming& timing = job.timing;
    timing.prompt_tokens = job.prompt_tokens;
    timing.completion_tokens = job.generated();
    timing.queue_ns = (job.admitted_ns ? job.admitted_ns : now) - job.submitted_ns;
    if (job.first_token_ns > 0) {
        timing.first_token_ns = job.first_token_ns - job.submitted_ns;
        timing.prefill_ns = job.first_token_ns - job.ready_ns;
        timing.decode_ns = now - job.first_token_ns;
    }
}

// The one way out. Frees exactly what the job holds, wherever it stands.
void EngineCore::finish(Job& job, Finish how, std::optional<Error> error) {
    const auto it = std::find_if(active_.begin(), active_.end(),
                                 [&](const auto& held) { return held.get() == &job; });
    std::unique_ptr<Job> owned = std::move(*it);
    active_.erase(it);
    if (owned->lease != 0) owned->lane->cache->release(owned->lease);
    if (how == Finish::length || how == Finish::stop) {
        if (!owned->stops.stopped())
            event_.text += owned->stops.feed(owned->utf8.finish()) + owned->stops.flush();
    } else {
        event_ = {};
    }
    fill_timing(*owned);
    event_.finish = how;
    event_.error = std::move(error);
    event_.timing = owned->timing;
    ++stats_.finished[static_cast<int>(how)];
    ++owned->lane->finished;
    queued_.fetch_sub(1, std::memory_order_relaxed);
    take_snapshot(true);  // who was answered finds it in the status
    owned->sink(std::move(event_));
    event_ = {};
}

}  // namespace quire
