#include "server/submission.h"

#include <random>
#include <utility>

namespace quire::server {
namespace {

uint64_t fresh_seed() {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

Submission::Submission(EngineApi& engine, std::shared_ptr<EventQueue> queue)
    : engine_(engine), queue_(std::move(queue)) {}

Submission::~Submission() {
    queue_->close();
    for (const auto& id : running_) {
        if (id) engine_.cancel(*id);
    }
}

std::optional<ApiError> Submission::submit(const GenerationPlan& plan, const std::string& tenant) {
    const uint64_t seed = fresh_seed();
    const auto choices = static_cast<uint32_t>(plan.prompts.size() * plan.body.n);
    const uint32_t choices_max = engine_.load().requests_max;
    if (choices_max > 0 && choices > choices_max) {
        return bad_field("n", "The request asks for " + std::to_string(choices) +
                                  " choices (prompts x n), but this server takes " +
                                  std::to_string(choices_max) +
                                  " at once (--max-running and --max-queue).");
    }
    running_.resize(choices);
    for (uint32_t choice = 0; choice < choices; ++choice) {
        GenerateRequest request =
            engine_request(plan, choice, request_tokens_max(engine_.model(), plan.kv), seed);
        request.tenant = tenant;
        auto sink = [queue = queue_, choice](GenerateEvent&& event) {
            queue->push(choice, std::move(event));
        };
        auto id = engine_.submit(std::move(request), std::move(sink));
        if (!id.ok()) return from_engine(id.error());
        running_[choice] = *id;
    }
    return std::nullopt;
}

}  // namespace quire::server
