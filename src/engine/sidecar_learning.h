// Learning a model's means from the first tokens that a server computes, once, into a file that
// the next start reads.
//
// Nothing that is served changes meanwhile: pages are coded without means until a server opens the
// file, whose hash is then in the name of all that it writes. A file that is there is never
// written again, so that means stay as they are.
//
// Owned by the engine and used by its thread; status() from any. The file is written by a thread
// of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/executor.h"
#include "engine/api.h"
#include "engine/model/mean_sums.h"

namespace quire {

class SidecarLearning {
 public:
    // From `tokens` tokens, into `path`. `model` must outlive it. Throws as ThreadPool does.
    SidecarLearning(const GgufModel& model, std::string path, uint32_t tokens, int32_t n_threads);

    KvObserver* observer() { return &sums_; }
    // Around a step. Of one that may yet be found to have read damaged pages, pass no sequences.
    void begin_step(std::span<const StepSequence> sequences);
    void end_step();

    SidecarStatus status() const;
    // Until a file that is being written is there, or not.
    void wait() { writer_.drain(); }

 private:
    void write(const codec::Sidecar& sidecar);
    void note(SidecarStatus::State state, std::string hash, std::string why);

    const GgufModel& model_;
    const std::string path_;
    MeanSums sums_;
    bool over_ = false;  // enough was seen

    mutable std::mutex mutex_;
    SidecarStatus status_;  // under mutex_
    ThreadPool writer_;     // the last member: its task uses the others
};

}  // namespace quire
