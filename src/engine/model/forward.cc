#include "engine/model/forward.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <ggml-cpu.h>
#include <ggml.h>

#include "base/arena.h"
#include "base/executor.h"
#include "engine/model/packed/rows.h"
#include "engine/model/step_graph.h"
#include "engine/model/step_state.h"

namespace quire {

struct StepScratch {
    struct PoolDeleter {
        void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
    };

    Arena buffers;
    Arena workspace;
    Arena work;
    int32_t n_threads = 0;
    std::unique_ptr<ggml_threadpool, PoolDeleter> pool;
};

namespace {

constexpr size_t kAlign = 64;
// Graphs of few rows (decodes) come again and again; those of many rows cost little beside their
// step.
constexpr int32_t kKeptGraphRows = 64;
constexpr size_t kKeptGraphs = 64;

constexpr size_t kLayerProjections = 4;
// Rows that one thread finishes and writes: whole groups of a codec, so that no two share a byte.
constexpr int32_t kRunTokens = codec::kGroupTokens;

int32_t rope_of(const LayerGeometry& g, const KvLayout& layout, size_t tables) {
    return tables == 2 && layout.groups[g.group].kind == KvKind::window ? 1 : 0;
}

// Places the buffers one after the other; with a null base it only measures.
size_t place_buffers(const StepState& s, std::byte* base, StepBuffers* out) {
    const HParams& h = s.model->hparams();
    const size_t rows = static_cast<size_t>(std::max(s.config.max_rows, kTiledRows));
    const size_t tail = static_cast<size_t>(std::max(s.config.max_logit_rows, kTiledRows));
    size_t at = 0;
    auto take = [&](size_t bytes) {
        std::byte* p = base == nullptr ? nullptr : base + at;
        at += (bytes + kAlign - 1) / kAlign * kAlign + kAlign;
        return p;
    };
    auto floats = [&](size_t n, int64_t width) {
        return reinterpret_cast<float*>(take(n * static_cast<size_t>(width) * sizeof(float)));
    };
    out->x = floats(rows, h.n_embd);
    out->x_other = floats(kTiledRows, h.n_embd);
    out->own_rows = floats(2 * static_cast<size_t>(s.config.n_threads), h.n_embd);
    out->x_tail = floats(tail, h.n_embd);
    out->normed = floats(rows, h.n_embd);
    out->qkv = floats(rows, s.qkv_width());
    out->raw_rows =
        floats(static_cast<size_t>(s.config.max_sequences) * static_cast<size_t>(h.n_kv_heads),
               int64_t{2} * h.head_dim);
    out->attn = floats(rows, s.heads_width());
    out->delta = floats(rows, h.n_embd);
    out->gate_up = floats(rows, int64_t{2} * h.n_ff);
    out->act = floats(rows, h.n_ff);
    out->logits = floats(tail, h.n_vocab);
    for (float*& rope : out->rope) rope = floats(rows, h.rope_dim);
    const size_t tiles = std::max((rows + packed::kTileRows - 1) / packed::kTileRows,
                                  static_cast<size_t>(s.config.n_threads));
    out->packed_rows = take(tiles * s.own_tile_bytes());
    return at;
}

class ForwardImpl final : public Forward {
 public:
    Status init(const GgufModel& model, const ForwardConfig& config) {
        state_.model = &model;
        state_.config = config;
        QUIRE_TRY(init_layout());
        if (config.n_threads < 1 || config.max_rows < 1 || config.max_sequences < 1 ||
            config.max_logit_rows < 1)
            return make_error(Code::invalid, "threads and the bounds of a step must be positive");
        state_.attention =
            config.attention != nullptr ? config.attention : &kernels::best_attention();
        state_.product = &packed::best_product(state_.attention->isa);
        if (config.coding.any())
            state_.encoder =
                &codec::best_ops(codec::row_of(config.coding.spec), state_.attention->isa);
        state_.config.max_logit_rows = std::min(config.max_logit_rows, config.max_rows);
        QUIRE_TRY(init_layers());
        scratch_ = std::move(state_.config.scratch);
        QUIRE_TRY(init_scratch());
        place_buffers(state_, scratch_->buffers.data(), &state_.buf);
        init_ropes();
        QUIRE_TRY(init_turns());
        state_.attention_finished = std::vector<kernels::AttnCounter>(
            static_cast<size_t>(config.max_sequences) *
            static_cast<size_t>(model.hparams().n_kv_heads));
        state_.packed_cursors = std::vector<StepState::Cursor>(
            static_cast<size_t>(model.hparams().n_layers) * kLayerProjections + 1);
        return {};
    }

    Result<StepResult> step(std::span<const StepSequence> sequences, LayerGate* gate) override {
        QUIRE_TRY(check(sequences));
        prepare(sequences, gate);
        QUIRE_TRY(reserve_workspace());
        const int32_t floor = state_.model->min_rows();
        const int32_t rows = std::max(state_.n_rows, floor);
        const int32_t tail = state_.n_logit_rows == 0 ? 0 : std::max(state_.n_logit_rows, floor);
        StepGraph* graph = find_graph(rows, tail);
        Arena& work = scratch_->work;
        if (work.size() < graph->work_bytes()) {
            auto larger = Arena::create({.bytes = graph->work_bytes(), .what = "ggml's scratch"});
            if (!larger) return larger.error();
            work = std::move(larger).value();
        }
        graph->compute(work.data());
        return finish();
    }

    void pause() override { ggml_threadpool_pause(scratch_->pool.get()); }
    std::shared_ptr<StepScratch> scratch() const override { return scratch_; }
    const KvLayout& layout() const override { return state_.layout; }
    const ForwardConfig& config() const override { return state_.config; }

 private:
    Status init_scratch() {
        const size_t bytes = place_buffers(state_, nullptr, &state_.buf);
        const int32_t n_threads = state_.config.n_threads;
        if (scratch_) {
            if (scratch_->buffers.size() >= bytes && scratch_->n_threads == n_threads) return {};
            return make_error(Code::invalid, "a step's buffers are of a model with other bounds");
        }
        scratch_ = std::make_shared<StepScratch>();
        auto buffers = Arena::create({.bytes = bytes, .what = "a step's activations and logits"});
        if (!buffers) return buffers.error();
        scratch_->buffers = std::move(buffers).value();
        ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
        params.poll = state_.config.poll;
        // ggml ends the process where it cannot start a thread. This throws there; where it does
        // not, ggml's threads take over the stacks.
        ThreadPool("tried", static_cast<uint32_t>(n_threads), 1).drain();
        scratch_->n_threads = n_threads;
        scratch_->pool.reset(ggml_threadpool_new(&params));
        if (scratch_->pool == nullptr)
            return make_error(Code::full,
                              "cannot start " + std::to_string(n_threads) + " compute threads");
        return {};
    }

    Status init_layout() {
        const ForwardConfig& config = state_.config;
        state_.layout = state_.model->kv_layout(config.block_tokens, config.element);
        if (config.coding.any()) {
            if (config.block_tokens != kCodedBlockTokens)
                return make_error(Code::invalid,
                                  "blocks of codes have " + std::to_string(kCodedBlockTokens) +
                                      " tokens, not " + std::to_string(config.block_tokens));
            state_.page = config.coding.geometry(state_.layout);
            state_.layout = config.coding.split(state_.layout);
        }
        return state_.layout.validate();
    }

    // Groups whose pages new tokens are written to in 16 bit: all, or those before the codes'.
    size_t exact_groups() const {
        const auto& groups = state_.layout.groups;
        const auto is_rest = [](const KvGroup& g) { return g.keep == KvKeep::rest; };
        return static_cast<size_t>(std::ranges::find_if(groups, is_rest) - groups.begin());
    }

    // Where the layer's codes are, and which of that group's layers it is. REQUIRES: it is coded.
    std::pair<size_t, size_t> coded_place(uint16_t layer) const {
        for (size_t g = exact_groups(); g < state_.layout.groups.size(); ++g) {
            const auto& layers = state_.layout.groups[g].layers;
            const auto at = std::ranges::find(layers, layer);
            if (at != layers.end()) return {g, static_cast<size_t>(at - layers.begin())};
        }
        return {0, 0};
    }

    kernels::AttnCodes codes_of(uint16_t layer) const {
        const KvCoding& coding = state_.config.coding;
        if (!coding.codes(layer)) return {};
        const auto [coded_group, layer_in_group] = coded_place(layer);
        return {.k_bits = coding.spec_of(layer).k_bits,
                .v_bits = coding.spec_of(layer).v_bits,
                .sink_tokens = static_cast<int32_t>(coding.sink_tokens),
                .span_tokens = static_cast<int32_t>(coding.recent_tokens),
                .layer_offset =
                    static_cast<int64_t>(state_.layout.layer_offset(coded_group, layer_in_group)),
                .page_bytes = static_cast<int64_t>(state_.layout.page_bytes(coded_group)),
                .v_mean = coding.v_means(layer)};
    }

    Status init_layers() {
        const HParams& h = state_.model->hparams();
        state_.layers.resize(static_cast<size_t>(h.n_layers));
        for (size_t g = 0; g < exact_groups(); ++g) {
            const KvGroup& group = state_.layout.groups[g];
            for (size_t i = 0; i < group.layers.size(); ++i) {
                LayerGeometry& layer = state_.layers[group.layers[i]];
                layer.group = g;
                const bool coded = state_.config.coding.codes(group.layers[i]);
                layer.coded_group = coded ? coded_place(group.layers[i]).first : g;
                layer.shape = {
                    .n_heads = h.n_heads,
                    .n_kv_heads = h.n_kv_heads,
                    .head_dim = h.head_dim,
                    .block_tokens = static_cast<int32_t>(state_.layout.block_tokens),
                    .element = state_.layout.element,
                    .window = static_cast<int32_t>(group.window_tokens),
                    .scale = h.attention_scale,
                    .layer_offset = static_cast<int64_t>(state_.layout.layer_offset(g, i)),
                    .page_bytes = static_cast<int64_t>(state_.layout.page_bytes(g)),
                    .codes = codes_of(group.layers[i])};
                if (const char* why = state_.attention->supports(layer.shape))
                    return make_error(Code::unsupported, std::string("the attention kernel ") +
                                                             state_.attention->name +
                                                             " cannot run this model: " + why);
            }
        }
        return {};
    }

    void init_ropes() {
        const HParams& h = state_.model->hparams();
        const float* factors = state_.model->weights().rope_factors();
        state_.ropes.emplace_back(h.rope_dim, h.rope_base, h.rope_scale, factors);
        if (h.window_tokens > 0)
            state_.ropes.emplace_back(h.rope_dim, h.window_rope_base, 1.0, factors);
        for (LayerGeometry& layer : state_.layers)
            layer.rope = rope_of(layer, state_.layout, state_.ropes.size());
    }

    Status init_turns() {
        const KeyTurns* turns = state_.config.coding.turns.get();
        if (turns == nullptr || state_.encoder == nullptr) return {};
        const HParams& h = state_.model->hparams();
        for (const RopeTable& rope : state_.ropes)
            state_.turn_tables.push_back(turn_tables(*turns, rope, h.context_tokens));
        for (uint32_t l = 0; l < state_.layers.size(); ++l) {
            LayerGeometry& layer = state_.layers[l];
            if (!layer.shape.codes.any()) continue;
            const TurnTables& tables = state_.turn_tables[static_cast<size_t>(layer.rope)];
            layer.shape.codes.turns = {.n_pairs = turns->n_pairs,
                                       .n_angles = static_cast<int32_t>(turns->rope_pairs.size()),
                                       .pairs = turns->of(l, 0).data(),
                                       .near = tables.near.data(),
                                       .far = tables.far.data()};
            if (const char* why = state_.attention->supports(layer.shape))
                return make_error(Code::bug, std::string("turned keys: ") + why);
        }
        return {};
    }

    Status check(std::span<const StepSequence> sequences) const {
        const HParams& h = state_.model->hparams();
        int64_t rows = 0;
        int64_t logit_rows = 0;
        for (const StepSequence& s : sequences) {
            const auto n = static_cast<int64_t>(s.tokens.size());
            if (n == 0 || s.n_logit_rows < 0 || s.n_logit_rows > n || s.first_pos < 0)
                return make_error(Code::invalid, "a step's sequence needs tokens and fitting rows");
            if (s.first_pos + n > h.context_tokens)
                return make_error(Code::invalid, "position " + std::to_string(s.first_pos + n) +
                                                     " is past the model's context of " +
                                                     std::to_string(h.context_tokens) + " tokens");
            for (const TokenId t : s.tokens)
                if (t < 0 || t >= h.n_vocab)
                    return make_error(Code::invalid, "token " + std::to_string(t) +
                                                         " is not in the model's vocabulary");
            rows += n;
            logit_rows += s.n_logit_rows;
        }
        const ForwardConfig& c = state_.config;
        if (sequences.empty() || std::cmp_greater(sequences.size(), c.max_sequences) ||
            rows > c.max_rows || logit_rows > c.max_logit_rows)
            return make_error(Code::invalid, "a step of " + std::to_string(sequences.size()) +
                                                 " sequences, " + std::to_string(rows) +
                                                 " tokens and " + std::to_string(logit_rows) +
                                                 " rows of logits is over its bounds");
        return {};
    }

    void prepare(std::span<const StepSequence> sequences, LayerGate* gate) {
        StepState& s = state_;
        s.sequences = sequences;
        s.gate = gate;
        s.gates_passed.store(0, std::memory_order_relaxed);
        s.n_rows = s.n_logit_rows = 0;
        for (StepState::Cursor& c : s.packed_cursors) c.next.store(0, std::memory_order_relaxed);
        s.row_token.clear();
        s.row_position.clear();
        s.tail_row.clear();
        s.runs.clear();
        s.attend_tail.clear();
        for (auto& list : s.attend) list.clear();
        s.dropped.assign(sequences.size(), false);
        for (size_t i = 0; i < sequences.size(); ++i) add_sequence(i, sequences[i]);
    }

    void add_sequence(size_t index, const StepSequence& seq) {
        StepState& s = state_;
        const auto n = static_cast<int32_t>(seq.tokens.size());
        for (int32_t r = 0; r < n; ++r) {
            s.row_token.push_back(seq.tokens[static_cast<size_t>(r)]);
            s.row_position.push_back(seq.first_pos + r);
        }
        for (int32_t r = 0; r < n;) {
            const int32_t room = kRunTokens - (seq.first_pos + r) % kRunTokens;
            const int32_t take = std::min(room, n - r);
            s.runs.push_back({index, s.n_rows + r, seq.first_pos + r, take});
            r += take;
        }
        kernels::AttnSequence attend = {.first_pos = seq.first_pos,
                                        .n_rows = n,
                                        .q = s.buf.qkv + int64_t{s.n_rows} * s.qkv_width(),
                                        .out = s.buf.attn + int64_t{s.n_rows} * s.heads_width(),
                                        .q_row_stride = s.qkv_width(),
                                        .out_row_stride = s.heads_width()};
        const auto read_from = [&](const LayerGeometry& layer) {
            attend.slabs = seq.slabs[layer.group];
            if (s.encoder != nullptr) attend.coded_slabs = seq.slabs[layer.coded_group];
        };
        for (const LayerGeometry& layer : s.layers) {
            auto& list = s.attend[layer.coded_group];
            if (list.size() > index) continue;  // another layer's as well
            read_from(layer);
            list.push_back(attend);
        }
        if (const int32_t tail = seq.n_logit_rows; tail > 0) {
            const int32_t skip = n - tail;
            read_from(s.layers.back());
            attend.first_pos += skip;
            attend.n_rows = tail;
            attend.q += int64_t{skip} * s.qkv_width();
            attend.out = s.buf.attn + int64_t{s.n_logit_rows} * s.heads_width();
            s.attend_tail.push_back(attend);
            for (int32_t r = 0; r < tail; ++r) s.tail_row.push_back(s.n_rows + skip + r);
            s.n_logit_rows += tail;
        }
        s.n_rows += n;
    }

    Status reserve_workspace() {
        size_t need = 0;
        for (const LayerGeometry& layer : state_.layers)
            need = std::max(
                need, state_.attention->workspace_bytes(
                          layer.shape, state_.attend[layer.coded_group], state_.config.n_threads));
        need = std::max(
            need, state_.attention->workspace_bytes(state_.layers.back().shape, state_.attend_tail,
                                                    state_.config.n_threads));
        Arena& workspace = scratch_->workspace;
        if (need > workspace.size()) {
            auto larger =
                Arena::create({.bytes = need + need / 2, .what = "attention's workspace"});
            if (!larger) return larger.error();
            workspace = std::move(larger).value();
        }
        state_.workspace = {workspace.data(), workspace.size()};
        return {};
    }

    StepGraph* find_graph(int32_t rows, int32_t tail) {
        if (rows > kKeptGraphRows) {
            if (large_key_ != std::pair(rows, tail)) {
                large_ = StepGraph::build(&state_, rows, tail, scratch_->pool.get());
                large_key_ = {rows, tail};
            }
            return large_.get();
        }
        auto& slot = graphs_[{rows, tail}];
        if (slot == nullptr) {
            if (graphs_.size() > kKeptGraphs) {
                graphs_.clear();
                return find_graph(rows, tail);
            }
            slot = StepGraph::build(&state_, rows, tail, scratch_->pool.get());
        }
        return slot.get();
    }

    StepResult finish() const {
        StepResult result;
        const auto vocab = static_cast<size_t>(state_.model->hparams().n_vocab);
        result.logits = {state_.buf.logits, static_cast<size_t>(state_.n_logit_rows) * vocab};
        for (size_t i = 0; i < state_.dropped.size(); ++i)
            if (state_.dropped[i]) result.dropped.push_back(i);
        return result;
    }

    StepState state_;
    std::shared_ptr<StepScratch> scratch_;
    std::map<std::pair<int32_t, int32_t>, std::unique_ptr<StepGraph>> graphs_;
    std::unique_ptr<StepGraph> large_;
    std::pair<int32_t, int32_t> large_key_ = {0, 0};
};

}  // namespace

Result<std::unique_ptr<Forward>> Forward::create(const GgufModel& model,
                                                 const ForwardConfig& config) {
    auto forward = std::make_unique<ForwardImpl>();
    QUIRE_TRY(forward->init(model, config));
    return std::unique_ptr<Forward>(std::move(forward));
}

}  // namespace quire
