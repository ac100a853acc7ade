// The means of a model's keys, before and after RoPE, and values, from the tokens that steps
// compute.
//
// The thread that steps arms it before each step and reads it between steps; during a step each of
// the step's threads adds to sums of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/sidecar.h"
#include "engine/model/forward.h"
#include "engine/model/gguf_model.h"
#include "engine/model/kv_observer.h"

namespace quire {

// A sequence's first tokens are attention's sinks and unlike all others; no mean counts them.
inline constexpr int32_t kMeanSkipsTokens = 16;

class MeanSums final : public KvObserver {
 public:
    // `model` must outlive it.
    MeanSums(const GgufModel& model, int32_t n_threads);

    // What the next step is of, and how many tokens of it are wanted at most; the number that will
    // be seen. No sequences: nothing of it.
    uint32_t arm(std::span<const StepSequence> sequences, uint32_t tokens_max);
    void see(const KvRows& rows, int thread) override;

    // Fills in the three means. REQUIRES: something was seen, and the sidecar's layers are the
    // model's.
    void store(codec::Sidecar* sidecar) const;
    // Gives its memory back; nothing is seen any more.
    void clear();

 private:
    struct Head {
        uint64_t rows = 0;
        std::vector<double> k, k_before, v;  // [head_dim]
    };
    struct Thread {
        std::vector<Head> heads;    // [layers][KV heads]
        std::vector<float> turned;  // a key's room
    };

    const GgufModel& model_;
    size_t kv_heads_, head_dim_;
    std::vector<int32_t> ends_;  // by sequence of the step: positions before it are seen
    std::vector<Thread> threads_;
};

}  // namespace quire
