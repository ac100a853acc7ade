#include "bench/generate.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

namespace quire::bench {
namespace {

// Shared with the sinks, which may outlive a wait that gave up.
struct Waiting {
    std::mutex mutex;
    std::condition_variable all_done;
    std::vector<Answer> answers;
    std::optional<Error> error;
    size_t open = 0;
};

void take(Waiting& waiting, size_t i, GenerateEvent&& event) {
    std::lock_guard lock(waiting.mutex);
    Answer& answer = waiting.answers[i];
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.finish == Finish::none) return;
    answer.finish = event.finish;
    answer.timing = std::move(event.timing);
    if (event.error && !waiting.error) waiting.error = std::move(event.error);
    if (--waiting.open == 0) waiting.all_done.notify_all();
}

}  // namespace

Result<std::vector<Answer>> generate_all(EngineApi& engine, std::vector<GenerateRequest> requests,
                                         int64_t timeout_ns) {
    auto waiting = std::make_shared<Waiting>();
    waiting->answers.resize(requests.size());
    waiting->open = requests.size();
    std::vector<RequestId> ids;
    const auto cancel_all = [&] {
        for (RequestId id : ids) engine.cancel(id);
    };
    for (size_t i = 0; i < requests.size(); ++i) {
        auto id = engine.submit(std::move(requests[i]), [waiting, i](GenerateEvent&& event) {
            take(*waiting, i, std::move(event));
        });
        if (!id.ok()) {
            cancel_all();
            return id.error();
        }
        ids.push_back(*id);
    }
    std::unique_lock lock(waiting->mutex);
    const bool done = waiting->all_done.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                                 [&] { return waiting->open == 0; });
    if (!done) {
        lock.unlock();
        cancel_all();
        return make_error(Code::timeout, "the engine did not answer in time");
    }
    if (waiting->error) return *waiting->error;
    return std::move(waiting->answers);
}

Result<Answer> generate(EngineApi& engine, GenerateRequest request, int64_t timeout_ns) {
    std::vector<GenerateRequest> one;
    one.push_back(std::move(request));
    auto answers = generate_all(engine, std::move(one), timeout_ns);
    if (!answers.ok()) return answers.error();
    return std::move(answers->front());
}

GenerateRequest greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens) {
    GenerateRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    return request;
}

Result<std::vector<TokenId>> prompt_of(const EngineApi& engine, std::string_view text,
                                       size_t n_tokens) {
    auto tokens = engine.tokenize(text, true, {});
    if (!tokens.ok()) return tokens.error();
    if (tokens->size() < n_tokens)
        return make_error(Code::invalid, "the text has only " + std::to_string(tokens->size()) +
                                             " of " + std::to_string(n_tokens) + " tokens");
    tokens->resize(n_tokens);
    return std::move(tokens).value();
}

}  // namespace quire::bench
