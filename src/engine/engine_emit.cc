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

// Row r of a prompt chunk predicts the token after it; the first token of a prompt has no
// prediction.
void EngineCore::add_prompt_logprobs(Job& job, std::span<const float> rows, uint32_t n_rows) {
    if (!job.request.prompt_logprobs) return;
    const uint32_t first = job.computed - n_rows;
    for (uint32_t r = 0; r < n_rows && first + r + 1 < job.prompt_tokens; ++r) {
        const TokenId token = job.tokens[first + r + 1];
        event_.tokens.push_back(token);
        event_.logprobs.push_back(job.sampler->logprob_of(
            rows.subspan(size_t{r} * info_.vocab_size, info_.vocab_size), token, *vocab_));
    }
}

void EngineCore::emit_token(Job& job, std::span<const float> logits) {
    const TokenSpan so_far(job.tokens);
    const SampledToken sampled = job.sampler->sample(logits, so_far.first(job.prompt_tokens),
                                                     so_far.subspan(job.prompt_tokens));
    const int64_t now = options_.clock->monotonic_ns();
    if (job.first_token_ns == 0) job.first_token_ns = now;
    job.tokens.push_back(sampled.token);
    cache_->append(job.lease, sampled.token);
    ++stats_.generated_tokens;

    const bool ended = vocab_->is_end(sampled.token) && !job.request.sampling.ignore_eos &&
                       job.generated() > job.request.min_tokens;
    Finish how = Finish::none;
    event_.tokens.push_back(sampled.token);
    if (job.request.sampling.logprobs >= 0)
        event_.logprobs.push_back(job.sampler->logprob_of(logits, sampled.token, *vocab_));
    if (ended) {
        how = Finish::stop;
    } else {
        event_.text += job.stops.feed(job.utf8.push(vocab_->piece(sampled.token)));
        if (job.stops.stopped())
            how = Finish::stop;
        else if (job.generated() >= job.request.max_tokens)
            how = Finish::length;
    }
    if (how != Finish::none) return finish(job, how);
    if (!event_.text.empty() || !event_.logprobs.empty()) {
        job.sink(std::move(event_));
        event_ = {};
    }
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
    if (owned->lease != 0) cache_->release(owned->lease);
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
    queued_.fetch_sub(1, std::memory_order_relaxed);
    owned->sink(std::move(event_));
    event_ = {};
}

}  // namespace quire
