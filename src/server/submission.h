// The engine requests of one HTTP request; whatever is unfinished when this ends is cancelled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/event_queue.h"
#include "server/generation_plan.h"

namespace quire::server {

class Submission {
 public:
    // `engine` outlives this.
    Submission(EngineApi& engine, std::shared_ptr<EventQueue> queue);
    // Cancels what runs and closes the queue; the engine's last events are dropped.
    ~Submission();
    Submission(const Submission&) = delete;
    Submission& operator=(const Submission&) = delete;

    // Submits every choice of the plan, or none: an error cancels those before it. Called once.
    std::optional<ApiError> submit(const GenerationPlan& plan, const std::string& tenant);
    void mark_finished(uint32_t choice) { running_[choice] = std::nullopt; }

 private:
    EngineApi& engine_;
    std::shared_ptr<EventQueue> queue_;
    std::vector<std::optional<RequestId>> running_;  // by choice
};

}  // namespace quire::server
