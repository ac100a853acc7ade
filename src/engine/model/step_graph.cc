#include "engine/model/step_graph.h"

#include <algorithm>
#include <deque>
#include <variant>

#include <ggml-cpu.h>
#include <ggml.h>

#include "base/check.h"
#include "engine/model/step_ops.h"

namespace quire {
namespace {

using AnyOp =
    std::variant<EmbedOp, NormOp, QkvOp, AttendOp, ProbeOp, QuantisePackedOp, PackedOp, SoftcapOp>;

struct Node {
    AnyOp op;
    const PackedOp* next = nullptr;  // soon after this one
};

void run_node(ggml_tensor*, int thread, int n_threads, void* data) {
    const StepFence fence;
    const Node& node = *static_cast<const Node*>(data);
    std::visit([&](const auto& op) { op.run(thread, n_threads); }, node.op);
    if (node.next != nullptr) node.next->fetch(thread, n_threads);
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
        : state_(state), rows_(rows), logit_rows_(logit_rows) {
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
        ggml_tensor* node = ggml_custom_4d(context_, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0,
                                           run_node, GGML_N_TASKS_MAX, &kept);
        node->data = &kept;  // no output of its own
        ggml_build_forward_expand(graph_, node);
    }

    ggml_tensor* leaf(float* data, int64_t width, int64_t rows) {
        ggml_tensor* t = ggml_new_tensor_2d(context_, GGML_TYPE_F32, width, rows);
        t->data = data;
        return t;
    }

    // out[rows][p.n_out] = in[rows][p.n_in] x p
    void multiply(const Projection& p, float* in, float* out, int32_t rows) {
        const auto is_packed = [](const Matrix& m) { return m.packed != nullptr; };
        if (std::any_of(p.parts.begin(), p.parts.end(), is_packed)) {
            if (rows > packed::kTileRows) add(QuantisePackedOp{state_, rows, in, p.n_in});
            add(PackedOp{state_, rows, in, &p, out, packed_ops_++});
        }
        int64_t column = 0;
        for (const Matrix& m : p.parts) {
            if (!is_packed(m)) {
                ggml_tensor* y = ggml_mul_mat(context_, m.ggml, leaf(in, p.n_in, rows));
                y->data = out + column;
                y->nb[1] = static_cast<size_t>(p.n_out) * sizeof(float);
                y->nb[2] = y->nb[3] = y->nb[1] * static_cast<size_t>(rows);
                ggml_build_forward_expand(graph_, y);
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
        ggml_build_forward_expand(graph_, y);
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
            add(NormOp{state_, rows, x, nullptr, delta, delta_norm, x, layer.attn_norm, b.normed});
            multiply(layer.qkv, b.normed, b.qkv, rows);
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
            float* x_next = last ? b.x_tail : x;
            add(NormOp{state_, rows, x, map, b.delta, layer.post_attn_norm, x_next, layer.ffn_norm,
                       b.normed});
            x = x_next;
            multiply(layer.gate_up, b.normed, b.gate_up, rows);
            activate(rows);
            multiply(layer.down, b.act, b.delta, rows);
            delta = b.delta;
            delta_norm = layer.post_ffn_norm;
        }
        add(NormOp{state_, rows, x, nullptr, delta, delta_norm, x, w.output_norm(), b.normed});
        multiply(w.head(), b.normed, b.logits, rows);
        if (h.final_softcap > 0) add(SoftcapOp{state_, rows});
    }

    StepState* state_;
    int32_t rows_;
    int32_t logit_rows_;
    ggml_context* context_ = nullptr;
    ggml_cgraph* graph_ = nullptr;
    ggml_cplan plan_ = {};
    size_t packed_ops_ = 0;
    std::deque<Node> nodes_;  // stable addresses: nodes point at them
};

}  // namespace

std::unique_ptr<StepGraph> StepGraph::build(StepState* state, int32_t rows, int32_t logit_rows,
                                            ggml_threadpool* pool) {
    return std::make_unique<GraphImpl>(state, rows, logit_rows, pool);
}

}  // namespace quire
