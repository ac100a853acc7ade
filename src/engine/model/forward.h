// One step of a model: some new tokens of some sequences go through all layers, their K and V into
// pages, and logits come out of the rows that need them.
//
// The caller owns the pages: it passes, per sequence and per KV group (KvLayout's order), a table
// of slab pointers that covers every position up to the last new token. Blocks that new tokens fall
// into are written; all others are only read, and may be shared. A block wholly below every new
// row's window may be null, and with a coding what the group does not keep (KvLayout), but for
// exact pages of blocks that new tokens fall into.
//
// What holds bit for bit: a row's K, V and logits depend on the tokens at and before its position
// and on nothing else: not on how a prompt is cut into steps, on the other sequences, on cached or
// computed pages, on prefill or decode, or on the number of threads (one build on one kind of CPU).
//
// Not thread-safe: one thread steps at a time; it is worker 0 of n_threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/kv_layout.h"
#include "core/types.h"
#include "engine/model/attention_probe.h"
#include "engine/model/gguf_model.h"
#include "engine/model/kv_coding.h"
#include "engine/model/kv_observer.h"
#include "engine/model/query_observer.h"
#include "kernels/attention.h"

namespace quire {

// The threads and buffers of a step.
struct StepScratch;

struct ForwardConfig {
    int32_t n_threads = 1;
    uint32_t block_tokens = 16;   // with a coding: kCodedBlockTokens
    Element element = Element::f16;  // of exact pages
    KvCoding coding;              // layout() has its groups
    int32_t max_rows = 512;       // tokens in a step
    int32_t max_sequences = 64;   // sequences in a step
    int32_t max_logit_rows = 64;  // rows with logits in a step
    // How long idle workers spin before they sleep, in ggml's units of 0 to 100.
    uint32_t poll = 50;
    const kernels::AttentionOps* attention = nullptr;  // nullptr: the fastest of this CPU
    QueryObserver* queries = nullptr;                  // sees every step's; nullptr: nobody does
    AttentionProbe* probe = nullptr;                   // sees what attention gives; nullptr: nobody
    KvObserver* observer = nullptr;                    // sees new keys and values; nullptr: nobody
    // Of another Forward of the same model with the same threads and bounds: only one of them steps
    // at a time, and logits are valid until the next step of any. null: its own.
    std::shared_ptr<StepScratch> scratch;
};

struct StepSequence {
    TokenSpan tokens;       // new tokens, at least one
    int32_t first_pos = 0;  // position of the first of them
    std::array<std::byte* const*, kMaxGroups> slabs = {};
    int32_t n_logit_rows = 0;  // logits are wanted for the last n of them
};

// Lets loads of cached pages go on while the first layers compute.
class LayerGate {
 public:
    virtual ~LayerGate() = default;
    // Called by one thread, once per sequence of the step and layer, before that layer's attention;
    // waits until the sequence's cached pages of the layer are there. false: they will never be;
    // the sequence is dropped from the rest of the step. Must return within a bounded time.
    virtual bool wait_layer(uint32_t layer, size_t sequence) = 0;
};

struct StepResult {
    // Rows of logits in the order of sequences and tokens; valid until the next step.
    std::span<const float> logits;  // [n_logit_rows in all][n_vocab]
    // Sequences for which the gate said no: their K, V and logits of this step are garbage.
    std::vector<size_t> dropped;
};

class Forward {
 public:
    // `model` must outlive it. unsupported: the attention kernel cannot run the model (says why).
    static Result<std::unique_ptr<Forward>> create(const GgufModel& model,
                                                   const ForwardConfig& config);
    virtual ~Forward() = default;

    // invalid: over a bound of the config, a token outside the vocabulary, a position past the
    // context.
    virtual Result<StepResult> step(std::span<const StepSequence> sequences,
                                    LayerGate* gate = nullptr) = 0;
    // Puts idle workers to sleep until the next step.
    virtual void pause() = 0;

    virtual const KvLayout& layout() const = 0;
    virtual const ForwardConfig& config() const = 0;
    virtual std::shared_ptr<StepScratch> scratch() const = 0;
};

}  // namespace quire
