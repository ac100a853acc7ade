// What the operations of a step share: buffers, the rows and sequences at hand, the layers'
// geometry.
//
// Written by the stepping thread before the graph starts; during the graph each field is written by
// one operation and read by later ones, with a barrier between (step_barrier.h, or ggml's).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/forward.h"
#include "engine/model/packed/product.h"
#include "engine/model/packed/rows.h"
#include "engine/model/rope.h"

namespace quire {

// Rows are contiguous in each buffer.
struct StepBuffers {
    float* x = nullptr;                // [rows][n_embd] residual stream
    float* x_other = nullptr;          // [a tile of rows][n_embd] takes turns with x
    float* x_tail = nullptr;           // [logit rows][n_embd] the same, once only logit rows go on
    float* normed = nullptr;           // [rows][n_embd]
    float* qkv = nullptr;              // [rows][(n_heads + 2 n_kv_heads) head_dim]
    float* raw_rows = nullptr;         // [sequences][n_kv_heads][2][head_dim] to be coded late
    float* attn = nullptr;             // [rows][n_heads head_dim]
    float* delta = nullptr;            // [rows][n_embd] what attention or feed-forward adds
    float* gate_up = nullptr;          // [rows][2 n_ff]
    float* act = nullptr;              // [rows][n_ff]
    float* logits = nullptr;           // [logit rows][n_vocab]
    float* rope[2] = {};               // [rows][rope_dim]: full, window
    std::byte* packed_rows = nullptr;  // tiles of all rows, or one for each thread
    float* own_rows = nullptr;         // [threads][2][n_embd] a norm's, inside a product
};

struct LayerGeometry {
    size_t group = 0;
    size_t coded_group = 0;  // of a coded layer; else the group
    kernels::AttnShape shape;
    int rope = 0;  // index of the rope table
};

// Consecutive new rows of one sequence inside 16 positions, hence inside one block.
struct BlockRun {
    size_t sequence = 0;
    int32_t row = 0;  // in the step
    int32_t position = 0;
    int32_t n_rows = 0;
};

struct StepState {
    const GgufModel* model = nullptr;
    ForwardConfig config;
    KvLayout layout;
    const kernels::AttentionOps* attention = nullptr;
    const packed::ProductOps* product = nullptr;
    const codec::PageCodecOps* encoder = nullptr;  // null: no coding
    codec::Geometry page;                          // that it encodes
    std::vector<LayerGeometry> layers;
    std::vector<RopeTable> ropes;         // one or two
    std::vector<TurnTables> turn_tables;  // of each of them, where the coding turns keys
    StepBuffers buf;

    // The step at hand.
    std::span<const StepSequence> sequences;
    LayerGate* gate = nullptr;
    std::atomic<int32_t> gates_passed{0};  // layers whose gate has been passed; with a gate only
    int32_t n_rows = 0;
    int32_t n_logit_rows = 0;
    std::vector<TokenId> row_token;  // [n_rows]
    std::vector<int32_t> row_position;
    std::vector<int32_t> tail_row;  // [n_logit_rows] row of each logit row
    std::vector<BlockRun> runs;
    std::vector<bool> dropped;  // by sequence
    // All rows, by the coded group of the layers that attend with it.
    std::array<std::vector<kernels::AttnSequence>, kMaxGroups> attend;
    std::vector<kernels::AttnSequence> attend_tail;  // logit rows only, last layer's group
    std::span<std::byte> workspace;
    kernels::AttnBatch batch;  // of the layer at hand
    std::atomic<int32_t> attention_cursor{0};
    std::vector<kernels::AttnCounter> attention_finished;  // [max_sequences][n_kv_heads]
    // One for each packed product of a graph, so that none has to wait for a reset.
    struct alignas(64) Cursor {
        std::atomic<int64_t> next{0};
    };
    std::vector<Cursor> packed_cursors;

    // Room for a tile of the widest rows.
    size_t own_tile_bytes() const {
        const HParams& h = model->hparams();
        const int64_t widest = std::max({h.n_embd, h.n_ff, heads_width()});
        return packed::tile_bytes((widest + 31) / 32 * 32);
    }
    int32_t heads_width() const {
        const HParams& h = model->hparams();
        return h.n_heads * h.head_dim;
    }
    int32_t qkv_width() const {
        const HParams& h = model->hparams();
        return (h.n_heads + 2 * h.n_kv_heads) * h.head_dim;
    }
};

// Makes ggml's barriers visible to ThreadSanitizer, which cannot see into the library: each
// operation acquires what all earlier ones, and the stepping thread, released. Nothing in other
// builds.
class StepFence {
 public:
    StepFence() { touch(); }
    ~StepFence() { touch(); }
    StepFence(const StepFence&) = delete;
    StepFence& operator=(const StepFence&) = delete;

 private:
#if defined(__SANITIZE_THREAD__)
    static void touch() { counter_.fetch_add(1, std::memory_order_acq_rel); }
    inline static std::atomic<uint32_t> counter_{0};
#else
    static void touch() {}
#endif
};

}  // namespace quire
