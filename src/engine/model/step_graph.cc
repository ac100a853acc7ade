#include "engine/model/step_graph.h"

#include <algorithm>
#include <deque>
#include <variant>
#include <vector>

#include <ggml-cpu.h>
#include <ggml.h>

#include "base/check.h"
#include "engine/model/step_barrier.h"
#include "engine/model/step_ops.h"

namespace quire {
namespace {

using AnyOp =
    std::variant<EmbedOp, NormOp, QkvOp, AttendOp, ProbeOp, QuantisePackedOp, PackedOp, SoftcapOp>;

struct Node {
    AnyOp op;
    const PackedOp* next = nullptr;  // soon after this one
};

// Operations of ours without one of ggml's between: one node of its graph.
struct Chain {
    StepBarrier* barrier = nullptr;
    std::vector<const Node*> nodes;
};

void run_chain(ggml_tensor*, int thread, int n_threads, void* data) {
    const StepFence fence;
    const Chain& chain = *static_cast<const Chain*>(data);
    for (const Node* node : chain.nodes) {
        if (node != chain.nodes.front()) chain.barrier->wait(thread);
        std::visit([&](const auto& op) { op.run(thread, n_threads); }, node->op);
        if (node->next != nullptr) node->next->fetch(thread, n_threads);
    }
}

// Enough for build_layers(), and not much more: many graphs are kept.
size_t count_tensors(const GgufModel& model) {
    // Embedding, last norm, soft cap; then norms, Q/K/V, attention, a probe, and the activation
    // with its input and a spare.
    constexpr size_t kOnce = 4;
    constexpr size_t kPerLayer = 8;
    // Quantise and multiply, or each part with its input.
    const auto of = [](const Projection& p) { return 2 * p.parts.size() + 2; };
    size_t n = kOnce + of(model.weights().head());
    for (int32_t i = 0; i < model.hparams().n_layers; ++i) {
        const LayerWeights& layer = model.weights().layer(static_cast<size_t>(i));
        n += kPerLayer + of(layer.qkv) + of(layer.out) + of(layer.gate_up) + of(layer.down);
    }
    return n;
}

class GraphImpl final : public StepGraph {
 public:
    GraphImpl(StepState* state, int32_t rows, int32_t logit_rows, ggml_threadpool* pool)
        : state_(state),
          rows_(rows),
          logit_rows_(logit_rows),
          barrier_(state->config.n_threads) {
        const size_t tensors = count_tensors(*state->model);
        context_ = ggml_init({.mem_size = ggml_tensor_overhead() * tensors +
                                          ggml_graph_overhead_custom(tensors, false),
                              .mem_buffer = nullptr,
                              .no_alloc = true});
        graph_ = ggml_new_graph_custom(context_, tensors, false);
        build_layers();
        plan_ = ggml_graph_plan(graph_, state->config.n_threads, pool);
    }
    ~GraphImpl() override { ggml_free(context_); }

    size_t work_bytes() const override { return plan_.work_size; }

    void compute(std::byte* work) override {
        plan_.work_data = reinterpret_cast<uint8_t*>(work);
        const StepFence fence;
        const ggml_status status = ggml_graph_compute(graph_, &plan_);
        QUIRE_CHECK(status == GGML_STATUS_SUCCESS, "ggml failed to compute a graph");
    }

 private:
    void add(AnyOp op) {
        Node* before = nodes_.empty() ? nullptr : &nodes_.back();
        Node& kept = nodes_.emplace_back(Node{std::move(op)});
        if (before != nullptr) before->next = std::get_if<PackedOp>(&kept.op);
        if (!in_chain_) {
            Chain& chain = chains_.emplace_back(Chain{&barrier_, {}});
            ggml_tensor* node = ggml_custom_4d(context_, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0,
                                               run_chain, GGML_N_TASKS_MAX, &chain);
            node->data = &chain;  // no output of its own
            ggml_build_forward_expand(graph_, node);
            in_chain_ = true;
        }
        chains_.back().nodes.push_back(&kept);
    }
    // One of ggml's own.
    void add(ggml_tensor* operation) {
        ggml_build_forward_expand(graph_, operation);
        in_chain_ = false;
    }

    ggml_tensor* leaf(float* data, int64_t width, int64_t rows) {
        ggml_tensor* t = ggml_new_tensor_2d(context_, GGML_TYPE_F32, width, rows);
        t->data = data;
        return t;
    }

    static bool is_packed(const Matrix& m) { return m.packed != nullptr; }
    static bool all_packed(const Projection& p) {
        return std::all_of(p.parts.begin(), p.parts.end(), is_packed);
    }

    // norm.out[rows][p.n_in] x p, after the norm. Returns where x is then: in norm.x_out, or in the
    // other of the two buffers that x can be in.
    float* norm_and_multiply(NormOp norm, const Projection& p, float* out, float* gated) {
        StepBuffers& b = state_->buf;
        if (norm.rows > kOwnNormRows || !all_packed(p)) {
            add(norm);
            multiply(p, norm.out, out, norm.rows, gated);
            return norm.x_out;
        }
        if (norm.x == norm.x_out) norm.x_out = norm.x == b.x ? b.x_other : b.x;
        add(PackedOp{state_, norm.rows, norm.out, &p, out, packed_ops_++, norm, gated});
        return norm.x_out;
    }

    // out[rows][p.n_out] = in[rows][p.n_in] x p
    void multiply(const Projection& p, float* in, float* out, int32_t rows,
                  float* gated = nullptr) {
        if (std::any_of(p.parts.begin(), p.parts.end(), is_packed)) {
            if (rows > packed::kTileRows) add(QuantisePackedOp{state_, rows, in, p.n_in});
            add(PackedOp{state_, rows, in, &p, out, packed_ops_++, std::nullopt, gated});
        }
        int64_t column = 0;
        for (const Matrix& m : p.parts) {
            if (!is_packed(m)) {
                ggml_tensor* y = ggml_mul_mat(context_, m.ggml, leaf(in, p.n_in, rows));
                y->data = out + column;
                y->nb[1] = static_cast<size_t>(p.n_out) * sizeof(float);
                y->nb[2] = y->nb[3] = y->nb[1] * static_cast<size_t>(rows);
                add(y);
            }
            column += m.n_out;
        }
    }

    void activate(int32_t rows) {
        const HParams& h = state_->model->hparams();
        ggml_tensor* both = leaf(state_->buf.gate_up, int64_t{2} * h.n_ff, rows);
        ggml_tensor* y = h.family->activation == Activation::silu ? ggml_swiglu(context_, both)
                                                                  : ggml_geglu(context_, both);
        y->data = state_->buf.act;
        add(y);
    }

    void build_layers() {
        const HParams& h = state_->model->hparams();
        const Weights& w = state_->model->weights();
        const StepBuffers& b = state_->buf;
        add(EmbedOp{state_, rows_});
        float* x = b.x;
        int32_t rows = rows_;
        const float* delta = nullptr;  // not yet added to x
        const float* delta_norm = nullptr;
        for (int32_t i = 0; i < h.n_layers; ++i) {
            const LayerWeights& layer = w.layer(static_cast<size_t>(i));
            const bool last = i + 1 == h.n_layers;
            x = norm_and_multiply(
                {state_, rows, x, nullptr, delta, delta_norm, x, layer.attn_norm, b.normed},
                layer.qkv, b.qkv, nullptr);
            add(QkvOp{state_, i, last});
            if (last && logit_rows_ == 0) return;
            add(AttendOp{state_, i});
            if (state_->config.probe != nullptr) add(ProbeOp{state_, i, last});
            const std::vector<int32_t>* map = nullptr;
            if (last) {
                map = &state_->tail_row;
                rows = logit_rows_;
            }
            multiply(layer.out, b.attn, b.delta, rows);
            const bool whole = all_packed(layer.gate_up) && h.n_ff % packed::kOutputs == 0;
            float* gated = whole ? b.act : nullptr;
            x = norm_and_multiply({state_, rows, x, map, b.delta, layer.post_attn_norm,
                                   last ? b.x_tail : x, layer.ffn_norm, b.normed},
                                  layer.gate_up, b.gate_up, gated);
            if (gated == nullptr) activate(rows);
            multiply(layer.down, b.act, b.delta, rows);
            delta = b.delta;
            delta_norm = layer.post_ffn_norm;
        }
        norm_and_multiply(
            {state_, rows, x, nullptr, delta, delta_norm, x, w.output_norm(), b.normed}, w.head(),
            b.logits, nullptr);
        if (h.final_softcap > 0) add(SoftcapOp{state_, rows});
    }

    StepState* state_;
    int32_t rows_;
    int32_t logit_rows_;
    ggml_context* context_ = nullptr;
    ggml_cgraph* graph_ = nullptr;
    ggml_cplan plan_ = {};
    size_t packed_ops_ = 0;
    StepBarrier barrier_;
    std::deque<Node> nodes_;  // stable addresses: chains and nodes point at them
    std::deque<Chain> chains_;
    bool in_chain_ = false;  // the last operation is of the last chain
};

}  // namespace

std::unique_ptr<StepGraph> StepGraph::build(StepState* state, int32_t rows, int32_t logit_rows,
                                            ggml_threadpool* pool) {
    return std::make_unique<GraphImpl>(state, rows, logit_rows, pool);
}

}  // namespace quire
