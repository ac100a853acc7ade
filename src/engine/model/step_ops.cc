#include "engine/model/step_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/prefetch.h"
#include "engine/model/packed/product.h"
#include "engine/model/packed/rows.h"

namespace quire {
namespace {

// 1 / sqrt(mean(v^2) + eps), summed in double in one fixed order.
float inverse_rms(const float* v, int32_t n, float eps) {
    double lanes[4] = {};
    int32_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; ++j) lanes[j] += static_cast<double>(v[i + j] * v[i + j]);
    for (; i < n; ++i) lanes[0] += static_cast<double>(v[i] * v[i]);
    const double mean = (lanes[0] + lanes[1] + lanes[2] + lanes[3]) / n;
    return 1.0f / std::sqrt(static_cast<float>(mean) + eps);
}

void rms_norm(const float* v, const float* weight, int32_t n, float eps, float* out) {
    const float scale = inverse_rms(v, n, eps);
    for (int32_t i = 0; i < n; ++i) out[i] = v[i] * scale * weight[i];
}

}  // namespace

void EmbedOp::run(int thread, int n_threads) const {
    const HParams& h = state->model->hparams();
    const float scale = h.family->scale_embedding ? std::sqrt(static_cast<float>(h.n_embd)) : 1.0f;
    for (int32_t r = thread; r < rows; r += n_threads) {
        float* out = state->buf.x + int64_t{r} * h.n_embd;
        const bool padding = r >= state->n_rows;
        const auto index = static_cast<size_t>(r);
        if (padding) {
            std::fill(out, out + h.n_embd, 0.0f);
        } else {
            dequantise_row(state->model->weights().embedding(), state->row_token[index], out);
            if (scale != 1.0f)
                for (int32_t i = 0; i < h.n_embd; ++i) out[i] *= scale;
        }
        for (size_t t = 0; t < state->ropes.size(); ++t)
            state->ropes[t].fill(padding ? 0 : state->row_position[index],
                                 state->buf.rope[t] + int64_t{r} * h.rope_dim);
    }
}

void NormOp::run(int thread, int n_threads) const {
    const int64_t n = state->model->hparams().n_embd;
    for (int32_t r = thread; r < rows; r += n_threads) row(r, x_out + r * n, out + r * n);
}

void NormOp::row(int32_t r, float* sum, float* result) const {
    const HParams& h = state->model->hparams();
    const int32_t n = h.n_embd;
    const bool mapped = map != nullptr && r < static_cast<int32_t>(map->size());
    const int64_t from = mapped ? (*map)[static_cast<size_t>(r)] : r;
    const float* in = x + from * n;
    if (delta == nullptr) {
        if (sum != in) memcpy(sum, in, static_cast<size_t>(n) * sizeof(float));
    } else {
        const float* d = delta + int64_t{r} * n;
        if (delta_norm != nullptr) {
            rms_norm(d, delta_norm, n, h.norm_eps, result);
            d = result;
        }
        for (int32_t i = 0; i < n; ++i) sum[i] = in[i] + d[i];
    }
    rms_norm(sum, weight, n, h.norm_eps, result);
}

namespace {

// A run's keys without their turned means, for as long as it lives.
class TurnedRun {
 public:
    TurnedRun(const StepState* s, int32_t layer, const BlockRun& run, int32_t kv_head, float* keys,
              int64_t stride)
        : n_(s->config.coding.turns ? run.n_rows : 0), stride_(stride), keys_(keys) {
        if (n_ == 0) return;
        const KeyTurns& turns = *s->config.coding.turns;
        const HParams& h = s->model->hparams();
        head_ = turns.of(static_cast<uint32_t>(layer), static_cast<uint32_t>(kv_head));
        const float* table =
            s->buf.rope[s->layers[static_cast<size_t>(layer)].rope] + int64_t{run.row} * h.rope_dim;
        for (int32_t r = 0; r < n_; ++r)
            take_off(turns, head_, table + int64_t{r} * h.rope_dim, h.rope_dim / 2,
                     keys_ + r * stride_, saved_[r]);
    }
    ~TurnedRun() {
        for (int32_t r = 0; r < n_; ++r) put_back(head_, saved_[r], keys_ + r * stride_);
    }
    TurnedRun(const TurnedRun&) = delete;
    TurnedRun& operator=(const TurnedRun&) = delete;

 private:
    const int32_t n_;
    const int64_t stride_;
    float* const keys_;
    std::span<const kernels::AttnPairMean> head_;
    float saved_[codec::kGroupTokens][2 * kKeyTurnPairs];
};

codec::HeadSidecar sidecar_of(const StepState* s, int32_t layer, int32_t kv_head) {
    codec::HeadSidecar sidecar =
        s->config.coding.head(static_cast<uint32_t>(layer), static_cast<uint32_t>(kv_head));
    const bool capped = s->layers[static_cast<size_t>(layer)].shape.softcap > 0.0f;
    if (capped) sidecar.k_mean = nullptr;  // it would not cancel
    return sidecar;
}

// K and V rows of one head as codes, but for sinks.
void encode_run(StepState* s, int32_t layer, const BlockRun& run, int32_t kv_head, float* k,
                float* v, int64_t stride) {
    const LayerGeometry& g = s->layers[static_cast<size_t>(layer)];
    if (run.position < g.shape.codes.sink_tokens) return;
    const auto block_tokens = static_cast<int32_t>(s->layout.block_tokens);
    const int32_t first = run.position % block_tokens;
    std::byte* slab = s->sequences[run.sequence].slabs[g.coded_group][run.position / block_tokens];
    const TurnedRun turned(s, layer, run, kv_head, k, stride);
    s->encoder->encode(
        {.spec = s->config.coding.spec_of(static_cast<uint32_t>(layer)),
         .geometry = s->page,
         .sidecar = sidecar_of(s, layer, kv_head),
         .k = k - first * stride,
         .v = v - first * stride,
         .k_stride = static_cast<size_t>(stride),
         .v_stride = static_cast<size_t>(stride),
         .first = static_cast<uint32_t>(first),
         .last = static_cast<uint32_t>(first + run.n_rows),
         .page = slab + g.shape.codes.layer_offset + kv_head * g.shape.codes.page_bytes});
}

// A sequence's only row reads its own block exact: its codes can wait for the attention.
bool is_coded_late(const StepState* s, const BlockRun& run) {
    return s->n_logit_rows > 0 && s->sequences[run.sequence].tokens.size() == 1;
}

// Its K, then its V, before they are turned to the codec's space.
float* raw_row(const StepState* s, const BlockRun& run, int32_t kv_head) {
    const HParams& h = s->model->hparams();
    const auto head =
        static_cast<int64_t>(run.sequence) * h.n_kv_heads + static_cast<int64_t>(kv_head);
    return s->buf.raw_rows + head * 2 * h.head_dim;
}

// From the last thread on: the first ones have more of the attention's items.
void encode_late(StepState* s, int32_t layer, int thread, int n_threads) {
    if (!s->layers[static_cast<size_t>(layer)].shape.codes.any()) return;
    const HParams& h = s->model->hparams();
    const auto tasks = static_cast<int32_t>(s->runs.size()) * h.n_kv_heads;
    for (int32_t t = n_threads - 1 - thread; t < tasks; t += n_threads) {
        const BlockRun& run = s->runs[static_cast<size_t>(t / h.n_kv_heads)];
        if (!is_coded_late(s, run)) continue;
        float* const row = raw_row(s, run, t % h.n_kv_heads);
        encode_run(s, layer, run, t % h.n_kv_heads, row, row + h.head_dim, h.head_dim);
    }
}

// Rows as codes, now or late; then the rows themselves in the codec's space.
void code_run(StepState* s, int32_t layer, const BlockRun& run, int32_t kv_head, float* k,
              float* v) {
    const int64_t width = s->qkv_width();
    const auto head_dim = static_cast<size_t>(s->page.head_dim);
    if (is_coded_late(s, run)) {
        float* const row = raw_row(s, run, kv_head);
        memcpy(row, k, head_dim * sizeof(float));
        memcpy(row + head_dim, v, head_dim * sizeof(float));
    } else {
        encode_run(s, layer, run, kv_head, k, v, width);
    }
    const codec::HeadSidecar sidecar = sidecar_of(s, layer, kv_head);
    for (int32_t r = 0; r < run.n_rows; ++r) {
        to_codec_space(sidecar.k_mean, s->page.head_dim, k + r * width);
        to_codec_space(sidecar.v_mean, s->page.head_dim, v + r * width);
    }
}

void show_rows(const StepState* s, int32_t layer, const BlockRun& run, int32_t kv_head,
               const float* k, const float* v, int thread) {
    if (s->config.observer == nullptr) return;
    const int32_t rope_dim = s->model->hparams().rope_dim;
    const float* tables = s->buf.rope[s->layers[static_cast<size_t>(layer)].rope];
    s->config.observer->see({.layer = static_cast<uint32_t>(layer),
                             .kv_head = static_cast<uint32_t>(kv_head),
                             .sequence = run.sequence,
                             .position = run.position,
                             .n_rows = run.n_rows,
                             .k = k,
                             .v = v,
                             .stride = s->qkv_width(),
                             .rope = tables + int64_t{run.row} * rope_dim,
                             .rope_stride = rope_dim},
                            thread);
}

// Bias, norm and RoPE of one head, in place; V has a bias at most.
class HeadFinish {
 public:
    HeadFinish(const StepState* s, int32_t layer)
        : w_(s->model->weights().layer(static_cast<size_t>(layer))), h_(s->model->hparams()) {}

    void query(float* row, int32_t head, const float* table) const {
        turn(biased(row, head * h_.head_dim), w_.q_norm, table);
    }
    void key(float* row, int32_t column, const float* table) const {
        turn(biased(row, column), w_.k_norm, table);
    }
    float* biased(float* row, int32_t column) const {
        float* head = row + column;
        if (w_.qkv_bias != nullptr)
            for (int32_t i = 0; i < h_.head_dim; ++i) head[i] += w_.qkv_bias[column + i];
        return head;
    }

 private:
    void turn(float* head, const float* norm, const float* table) const {
        if (norm != nullptr) rms_norm(head, norm, h_.head_dim, h_.norm_eps, head);
        rope_rotate(h_.family->rope, h_.rope_dim / 2, table, head);
    }
    const LayerWeights& w_;
    const HParams& h_;
};

const float* rope_table(const StepState* s, int32_t layer, int32_t row) {
    return s->buf.rope[s->layers[static_cast<size_t>(layer)].rope] +
           int64_t{row} * s->model->hparams().rope_dim;
}

// Query heads of one KV group in one block run.
void finish_queries(StepState* s, int32_t layer, const BlockRun& run, int32_t kv_head) {
    const HParams& h = s->model->hparams();
    const int32_t group_heads = h.n_heads / h.n_kv_heads;
    const HeadFinish finish(s, layer);
    for (int32_t row = run.row; row < run.row + run.n_rows; ++row)
        for (int32_t q = kv_head * group_heads; q < (kv_head + 1) * group_heads; ++q)
            finish.query(s->buf.qkv + row * s->qkv_width(), q, rope_table(s, layer, row));
}

// K and V of one KV head in one block run, into its pages.
void finish_keys(StepState* s, int32_t layer, const BlockRun& run, int32_t kv_head, int thread) {
    const LayerGeometry& g = s->layers[static_cast<size_t>(layer)];
    const HParams& h = s->model->hparams();
    const int64_t width = s->qkv_width();
    const int32_t k_column = (h.n_heads + kv_head) * h.head_dim;
    const int32_t v_column = (h.n_heads + h.n_kv_heads + kv_head) * h.head_dim;
    float* const first = s->buf.qkv + run.row * width;
    const HeadFinish finish(s, layer);
    for (int32_t r = 0; r < run.n_rows; ++r) {
        finish.key(first + r * width, k_column, rope_table(s, layer, run.row + r));
        finish.biased(first + r * width, v_column);
    }
    show_rows(s, layer, run, kv_head, first + k_column, first + v_column, thread);
    if (g.shape.codes.any()) code_run(s, layer, run, kv_head, first + k_column, first + v_column);
    // This head alone, as a shape with one KV head that starts at its page.
    kernels::AttnShape shape = g.shape;
    shape.layer_offset += kv_head * shape.page_bytes;
    shape.n_heads = h.n_heads / h.n_kv_heads;
    shape.n_kv_heads = 1;
    const kernels::StoreSequence store = {.slabs = s->sequences[run.sequence].slabs[g.group],
                                          .first_pos = run.position,
                                          .n_rows = run.n_rows,
                                          .k = first + k_column,
                                          .v = first + v_column,
                                          .k_row_stride = width,
                                          .v_row_stride = width};
    s->attention->store(shape, {&store, 1}, 0, 1);
}

// While thread 0 waits, the others sleep too: at the operation's end they would spin, on cores that
// whoever reads and verifies the pages could use.
void await_gate(StepState* s, int32_t layer) {
    if (s->gate == nullptr) return;
    int32_t passed = s->gates_passed.load(std::memory_order_acquire);
    for (; passed <= layer; passed = s->gates_passed.load(std::memory_order_acquire))
        s->gates_passed.wait(passed, std::memory_order_acquire);
}

void pass_gate(StepState* s, int32_t layer) {
    if (s->gate == nullptr) return;
    for (size_t i = 0; i < s->sequences.size(); ++i) {
        if (s->dropped[i]) continue;
        if (!s->gate->wait_layer(static_cast<uint32_t>(layer), i)) s->dropped[i] = true;
    }
    s->gates_passed.store(layer + 1, std::memory_order_release);
    s->gates_passed.notify_all();
}

// The sequences that are still in the step; an AttnSequence has no index, so they are matched by
// order.
void remove_dropped(StepState* s, std::vector<kernels::AttnSequence>* list, bool tail) {
    if (std::none_of(s->dropped.begin(), s->dropped.end(), [](bool d) { return d; })) return;
    size_t at = 0;
    for (size_t i = 0; i < s->sequences.size(); ++i) {
        if (tail && s->sequences[i].n_logit_rows == 0) continue;
        if (s->dropped[i]) (*list)[at].n_rows = 0;
        ++at;
    }
}

}  // namespace

void QkvOp::run(int thread, int n_threads) const {
    StepState* s = state;
    const auto index = static_cast<size_t>(layer);
    const LayerGeometry& g = s->layers[index];
    const int32_t kv_heads = g.shape.n_kv_heads;
    // Keys take longer and come first.
    const auto heads = static_cast<int32_t>(s->runs.size()) * kv_heads;
    const int32_t tasks = 2 * heads;
    for (int32_t t = thread; t < tasks; t += n_threads) {
        const BlockRun& run = s->runs[static_cast<size_t>(t % heads / kv_heads)];
        if (t < heads)
            finish_keys(s, layer, run, t % kv_heads, thread);
        else
            finish_queries(s, layer, run, t % kv_heads);
    }
    std::vector<kernels::AttnSequence>* list =
        tail_only ? &s->attend_tail : &s->attend[g.coded_group];
    if (thread >= tasks && s->gate == nullptr)  // waits for others
        s->attention->fetch({.shape = g.shape, .sequences = *list}, thread, n_threads);
    if (thread != 0) {
        await_gate(s, layer);
        return;
    }
    pass_gate(s, layer);
    remove_dropped(s, list, tail_only);
    s->attention_cursor.store(0, std::memory_order_relaxed);
    s->batch = {.shape = g.shape,
                .sequences = *list,
                .workspace = s->workspace,
                .cursor = &s->attention_cursor,
                .finished = s->attention_finished};
}

void AttendOp::run(int thread, int n_threads) const {
    encode_late(state, layer, thread, n_threads);
    const kernels::AttnBatch& batch = state->batch;
    if (batch.sequences.empty()) return;
    if (thread == 0 && state->config.queries != nullptr)
        state->config.queries->see(static_cast<uint32_t>(layer), batch.shape, batch.sequences);
    state->attention->run(batch, thread, n_threads);
}

void QuantisePackedOp::run(int thread, int n_threads) const {
    const size_t tile_bytes = packed::tile_bytes(n_in);
    for (int32_t r = thread; r < rows; r += n_threads)
        state->product->quantise_row(
            in + r * n_in, n_in,
            state->buf.packed_rows + static_cast<size_t>(r / packed::kTileRows) * tile_bytes,
            r % packed::kTileRows);
}

namespace {

// Groups [from, to) of one matrix for all rows: a few groups stay in the first-level cache while
// tiles of rows pass by them.
void multiply_groups(const packed::ProductOps& ops, const Matrix& m, int64_t from, int64_t to,
                     const std::byte* tile, int32_t rows, float* out, int64_t out_stride) {
    const size_t group_bytes = packed::group_bytes(m.layout, m.n_in);
    for (int32_t r = 0; r < rows; r += packed::kTileRows, tile += packed::tile_bytes(m.n_in))
        for (int64_t g = from; g < to; ++g)
            ops.multiply({.layout = m.layout,
                          .group = m.packed + static_cast<size_t>(g) * group_bytes,
                          .n_in = m.n_in,
                          .tile = tile,
                          .n_rows = std::min(packed::kTileRows, rows - r),
                          .out = out + r * out_stride + g * packed::kOutputs,
                          .out_stride = out_stride});
}

// The thread's own tile of all rows, or the one that a QuantisePackedOp made for everybody.
const std::byte* quantised(const PackedOp& op, int thread) {
    const int64_t n_in = op.projection->n_in;
    std::byte* const shared = op.state->buf.packed_rows;
    if (op.rows > packed::kTileRows) return shared;
    std::byte* const own = shared + static_cast<size_t>(thread) * op.state->own_tile_bytes();
    float* const sum = op.state->buf.own_rows + 2 * thread * n_in;  // of a norm: n_in is n_embd
    for (int32_t r = 0; r < op.rows; ++r) {
        const float* in = op.in + r * n_in;
        if (op.norm) {
            // One thread keeps the sum for those who come later.
            op.norm->row(r, thread == 0 ? op.norm->x_out + r * n_in : sum, sum + n_in);
            in = sum + n_in;
        }
        op.state->product->quantise_row(in, n_in, own, r);
    }
    return own;
}

// Groups that a thread takes at a time. Weights of one tile are used once: long runs, so that the
// CPU's prefetcher is seldom restarted. Those of many tiles stay in the first-level cache while
// tiles pass by: few groups.
int64_t chunk_groups(const PackedOp& op, int n_threads) {
    const int64_t all = op.projection->n_out / packed::kOutputs / (op.gated == nullptr ? 1 : 2);
    if (op.rows <= packed::kTileRows) return std::max<int64_t>(all / (2 * n_threads), 1);
    return std::clamp<int64_t>(all / (4 * n_threads), 1, 4);
}

}  // namespace

namespace {

// Chunks of a gate and of what it lets through, and then the gated numbers.
void multiply_gated(const PackedOp& op, int thread, int n_threads, const std::byte* tiles) {
    std::atomic<int64_t>& drawn = op.state->packed_cursors[op.cursor].next;
    // One matrix, in which what the gate lets through follows on it, or two.
    const Matrix& gate = op.projection->parts.front();
    const Matrix& up = op.projection->parts.back();
    const int64_t n_out = op.projection->n_out, width = n_out / 2;
    const int64_t groups = width / packed::kOutputs;
    const int64_t behind = op.projection->parts.size() == 1 ? groups : 0;
    const packed::ProductOps& ops = *op.state->product;
    const Activation activation = op.state->model->hparams().family->activation;
    const auto kind = activation == Activation::silu ? packed::Gate::silu : packed::Gate::gelu;
    const int64_t chunk = chunk_groups(op, n_threads);
    for (int64_t next = thread; next * chunk < groups;
         next = n_threads + drawn.fetch_add(1, std::memory_order_relaxed)) {
        const int64_t from = next * chunk, to = std::min(from + chunk, groups);
        multiply_groups(ops, gate, from, to, tiles, op.rows, op.out, n_out);
        multiply_groups(ops, up, behind + from, behind + to, tiles, op.rows,
                        op.out + (behind == 0 ? width : 0), n_out);
        const int64_t first = from * packed::kOutputs, n = (to - from) * packed::kOutputs;
        for (int32_t r = 0; r < op.rows; ++r) {
            const float* both = op.out + r * n_out + first;
            ops.gate(kind, both, both + width, n, op.gated + r * width + first);
        }
    }
}

}  // namespace

// Chunks are numbered over all parts. A thread's first one has its own number, later ones are
// drawn.
void PackedOp::run(int thread, int n_threads) const {
    if (gated != nullptr)
        return multiply_gated(*this, thread, n_threads, quantised(*this, thread));
    const std::byte* const tiles = quantised(*this, thread);
    std::atomic<int64_t>& drawn = state->packed_cursors[cursor].next;
    const int64_t chunk = chunk_groups(*this, n_threads);
    int64_t next = thread;
    int64_t first = 0;   // number of the part's first chunk
    int64_t column = 0;  // of the part's first output
    for (const Matrix& m : projection->parts) {
        const int64_t groups = m.packed == nullptr ? 0 : m.n_out / packed::kOutputs;
        const int64_t chunks = (groups + chunk - 1) / chunk;
        for (; next < first + chunks;
             next = n_threads + drawn.fetch_add(1, std::memory_order_relaxed)) {
            const int64_t from = (next - first) * chunk;
            multiply_groups(*state->product, m, from, std::min(from + chunk, groups), tiles, rows,
                            out + column, projection->n_out);
        }
        first += chunks;
        column += m.n_out;
    }
}

void PackedOp::fetch(int thread, int n_threads) const {
    constexpr size_t kFetchBytes = 16384;
    const Matrix& m = projection->parts.front();
    if (rows > packed::kTileRows || m.packed == nullptr) return;
    const size_t group_bytes = packed::group_bytes(m.layout, m.n_in);
    const int64_t groups = m.n_out / packed::kOutputs;
    const int64_t from = thread * chunk_groups(*this, n_threads);
    if (from >= groups) return;
    const std::byte* at = m.packed + static_cast<size_t>(from) * group_bytes;
    const size_t bytes = std::min(kFetchBytes, static_cast<size_t>(groups - from) * group_bytes);
    for (size_t i = 0; i < bytes; i += 64) prefetch_l2(at + i);
}

void SoftcapOp::run(int thread, int n_threads) const {
    const HParams& h = state->model->hparams();
    const int64_t n = int64_t{rows} * h.n_vocab;
    for (int64_t i = n * thread / n_threads; i < n * (thread + 1) / n_threads; ++i)
        state->buf.logits[i] = h.final_softcap * std::tanh(state->buf.logits[i] / h.final_softcap);
}

}  // namespace quire
