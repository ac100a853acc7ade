// The operations between matrix products, as tasks that ggml's worker threads share.
//
// Every function is called once by each of n threads; work is split by rows (or heads, or weight
// rows), so that no sum ever crosses threads. A record names the buffers and weights of one node of
// the graph and lives as long as the graph.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/step_state.h"

struct ggml_tensor;

namespace quire {

// Rows that a norm inside a product is for.
inline constexpr int32_t kOwnNormRows = 2;

// Embeds the step's tokens into buf.x and fills the rope tables. Padding rows become zero.
struct EmbedOp {
    StepState* state;
    int32_t rows;
    void run(int thread, int n_threads) const;
};

// x_out[i] = x[map(i)] + post_norm(delta[i]);  out[i] = rms_norm(x_out[i]) * weight.
struct NormOp {
    StepState* state;
    int32_t rows;
    const float* x;
    const std::vector<int32_t>* map;  // nullptr: the same row
    const float* delta;               // nullptr: add nothing
    const float* delta_norm;          // weight of the norm on delta; nullptr: none
    float* x_out;
    const float* weight;
    float* out;
    void run(int thread, int n_threads) const;
    // One row, into buffers of the caller's: [n_embd] each; `sum` is what goes to x_out.
    void row(int32_t r, float* sum, float* result) const;
};

// Biases, per-head norms and RoPE on Q and K in place; K and V into pages; then the layer's gate,
// after which the layer's attention batch is ready.
struct QkvOp {
    StepState* state;
    int32_t layer;
    bool tail_only;  // the last layer attends for logit rows only
    void run(int thread, int n_threads) const;
};

// Single rows' codes, too: nobody reads them before the next block begins, and most threads would
// wait for them in the operation before.
struct AttendOp {
    StepState* state;
    int32_t layer;
    void run(int thread, int n_threads) const;
};

// Shows the layer's attention to the config's probe.
struct ProbeOp {
    StepState* state;
    int32_t layer;
    bool tail_only;  // as QkvOp
    void run(int thread, int) const {
        if (thread != 0) return;
        const auto rows = static_cast<size_t>(tail_only ? state->n_logit_rows : state->n_rows);
        state->config.probe->attended(
            static_cast<uint32_t>(layer),
            {state->buf.attn, rows * static_cast<size_t>(state->heads_width())});
    }
};

// Quantises rows for PackedOp, when they are more than one tile.
struct QuantisePackedOp {
    StepState* state;
    int32_t rows;
    const float* in;
    int64_t n_in;
    void run(int thread, int n_threads) const;
};

// out[r] = row r times the projection's packed parts. With at most a tile of rows each thread
// quantises them for itself: that is cheaper than a barrier.
struct PackedOp {
    StepState* state;
    int32_t rows;
    const float* in;
    const Projection* projection;
    float* out;
    size_t cursor;  // of state->packed_cursors, its own
    // The norm that gives `in`, by each thread for itself where few rows make that cheaper than a
    // barrier, too: then `in` is not read, and norm.x_out is no buffer that norm.x or any other
    // operation's input is.
    std::optional<NormOp> norm = std::nullopt;
    // Where outputs are a gate and what it lets through, as wide as each other and packed whole:
    // the gated numbers, [rows][n_out / 2], by the thread that has computed both. nullptr: none.
    float* gated = nullptr;
    void run(int thread, int n_threads) const;
    // Starts fetching the weights that the thread will begin with: called by the operation before,
    // so that memory works while threads wait for each other.
    void fetch(int thread, int n_threads) const;
};

// logits = cap * tanh(logits / cap)
struct SoftcapOp {
    StepState* state;
    int32_t rows;
    void run(int thread, int n_threads) const;
};

}  // namespace quire
