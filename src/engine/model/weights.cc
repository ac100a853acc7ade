#include "engine/model/weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include <ggml-cpu.h>
#include <ggml.h>

#include "base/hash.h"
#include "engine/model/packed/pack.h"
#include "engine/model/packed/product.h"

namespace quire {
namespace {

constexpr size_t kTensorAlign = 64;

size_t aligned(size_t bytes) {
    return (bytes + kTensorAlign - 1) / kTensorAlign * kTensorAlign;
}

std::string shape_text(const int64_t* shape) {
    return std::to_string(shape[0]) + " x " + std::to_string(shape[1]);
}

bool can_multiply(int32_t type) {
    const auto t = static_cast<ggml_type>(type);
    return ggml_get_type_traits_cpu(t)->vec_dot != nullptr &&
           ggml_get_type_traits_cpu(ggml_get_type_traits_cpu(t)->vec_dot_type)->from_float !=
               nullptr;
}

// Without vector instructions ggml's own products are faster than the oracle.
bool can_pack() {
    return packed::best_product(kernels::Isa::avx512).isa != kernels::Isa::ref;
}

}  // namespace

// Two passes over the same list of wishes: the first checks shapes and sums sizes, the second reads
// the bytes. A wish is one destination in the arena and the tensors that fill it, in order.
class WeightLoader {
 public:
    WeightLoader(const GgufFile& file, const HParams& h, Weights* w) : file_(file), h_(h), w_(w) {}

    Status run() {
        w_->layers_.resize(static_cast<size_t>(h_.n_layers));
        w_->context_ = ggml_init({.mem_size = ggml_tensor_overhead() * (size_t{8} * 256 * 2 + 64),
                                  .mem_buffer = nullptr,
                                  .no_alloc = true});
        plan_globals();
        for (int32_t i = 0; i < h_.n_layers; ++i) plan_layer(i);
        check_leftovers();
        if (!status_) return status_;
        auto arena = Arena::create({.bytes = bytes_ + kTensorAlign, .what = "the model's weights"});
        if (!arena) return arena.error();
        w_->arena_ = std::move(arena).value();
        for (Wish& wish : wishes_) QUIRE_TRY(fill(&wish));
        if (w_->embedding_.n_in == 0) w_->embedding_ = w_->head_.parts[0];
        finish_digest();
        return {};
    }

 private:
    struct Wish {
        std::vector<const GgufTensor*> sources;
        size_t offset = 0;
        bool changes_kv = true;
        std::function<void(std::byte*)> bind;
        bool pack = false;
    };

    void fail(Code code, const std::string& what) {
        if (status_.ok()) status_ = make_error(code, file_.path() + ": " + what);
    }

    const GgufTensor* take(const std::string& name, int64_t n0, int64_t n1, bool required) {
        const GgufTensor* t = file_.find(name);
        if (t == nullptr) {
            if (required) fail(Code::invalid, "the tensor " + name + " is missing");
            return nullptr;
        }
        const int64_t want[2] = {n0, n1};
        if (t->shape[0] != n0 || t->shape[1] != n1 || t->shape[2] != 1 || t->shape[3] != 1) {
            fail(Code::invalid, "tensor " + name + " is " + shape_text(t->shape) + ", not " +
                                    shape_text(want) + " as the metadata says");
            return nullptr;
        }
        used_.insert(name);
        return t;
    }

    void add(std::vector<const GgufTensor*> sources, bool changes_kv,
             std::function<void(std::byte*)> bind) {
        Wish wish{std::move(sources), bytes_, changes_kv, std::move(bind)};
        for (const GgufTensor* t : wish.sources) bytes_ += t->bytes;
        bytes_ = aligned(bytes_);
        wishes_.push_back(std::move(wish));
    }

    // A vector of floats, `out` set once the bytes are there.
    void vector(const std::string& name, int64_t n, const float** out, bool required = true,
                bool changes_kv = true) {
        const GgufTensor* t = take(name, n, 1, required);
        if (t == nullptr) return;
        if (t->type != GGML_TYPE_F32)
            return fail(Code::unsupported, "tensor " + name + " must be F32, not " +
                                               ggml_type_name(static_cast<ggml_type>(t->type)));
        add({t}, changes_kv, [out](std::byte* p) { *out = reinterpret_cast<const float*>(p); });
    }

    void matrix(const GgufTensor* t, ggml_tensor* tensor, bool changes_kv = true) {
        add({t}, changes_kv, [tensor](std::byte* p) { tensor->data = p; });
    }

    ggml_tensor* new_matrix(int32_t type, int64_t n_in, int64_t n_out, const std::string& name) {
        if (!can_multiply(type)) {
            fail(Code::unsupported,
                 "tensor " + name + " has type " + ggml_type_name(static_cast<ggml_type>(type)) +
                     ", which cannot be multiplied on this CPU; use another quantisation");
            return nullptr;
        }
        ggml_tensor* t =
            ggml_new_tensor_2d(w_->context_, static_cast<ggml_type>(type), n_in, n_out);
        ggml_set_name(t, name.c_str());
        return t;
    }

    static int64_t rows_of(const GgufTensor& t) { return t.shape[1]; }

    // One matrix out of tensors of one type over the same input, their rows joined.
    void add_matrix(Projection* p, const std::vector<const GgufTensor*>& sources, bool changes_kv) {
        int64_t rows = 0;
        bool pack = can_pack();
        for (const GgufTensor* t : sources) {
            rows += rows_of(*t);
            pack = pack && packed::layout_for(t->type, p->n_in, rows_of(*t)).has_value();
        }
        const size_t index = p->parts.size();
        if (!pack) {
            ggml_tensor* t = new_matrix(sources[0]->type, p->n_in, rows, sources[0]->name);
            if (t == nullptr) return;
            p->parts.push_back({.n_in = p->n_in, .n_out = rows, .ggml = t});
            return add(sources, changes_kv, [t](std::byte* data) { t->data = data; });
        }
        const packed::Layout layout = *packed::layout_for(sources[0]->type, p->n_in, rows);
        p->parts.push_back({.n_in = p->n_in, .n_out = rows, .layout = layout});
        wishes_.push_back({sources, bytes_, changes_kv,
                           [p, index](std::byte* data) { p->parts[index].packed = data; }, true});
        bytes_ = aligned(bytes_ + packed::packed_bytes(layout, p->n_in, rows));
    }

    // Runs of matrices of one type become one matrix each.
    void projection(Projection* p, int64_t n_in,
                    const std::vector<std::pair<std::string, int64_t>>& mats,
                    bool changes_kv = true) {
        p->n_in = n_in;
        std::vector<const GgufTensor*> run;
        auto flush = [&] {
            if (!run.empty()) add_matrix(p, run, changes_kv);
            run.clear();
        };
        for (const auto& [name, n_out] : mats) {
            const GgufTensor* t = take(name, n_in, n_out, true);
            if (t == nullptr) return;
            if (!run.empty() && run[0]->type != t->type) flush();
            run.push_back(t);
            p->n_out += n_out;
        }
        flush();
    }

    void plan_globals() {
        const GgufTensor* e = take("token_embd.weight", h_.n_embd, h_.n_vocab, true);
        if (e == nullptr) return;
        if (file_.find("output.weight") != nullptr) {
            plan_embedding(*e);
            projection(&w_->head_, h_.n_embd, {{"output.weight", h_.n_vocab}}, false);
        } else {
            plan_tied(*e);
        }
        vector("output_norm.weight", h_.n_embd, &w_->output_norm_, true, false);
        vector("rope_freqs.weight", h_.rope_dim / 2, &w_->rope_factors_, false);
    }

    void plan_embedding(const GgufTensor& e) {
        ggml_tensor* tensor = new_matrix(e.type, h_.n_embd, h_.n_vocab, e.name);
        if (tensor == nullptr) return;
        w_->embedding_ = {.n_in = h_.n_embd, .n_out = h_.n_vocab, .ggml = tensor};
        matrix(&e, tensor);
    }

    // One matrix is both the head and the embedding.
    void plan_tied(const GgufTensor& e) {
        Projection* head = &w_->head_;
        head->n_in = h_.n_embd;
        head->n_out = h_.n_vocab;
        add_matrix(head, {&e}, true);
    }

    void plan_layer(int32_t index) {
        LayerWeights& layer = w_->layers_[static_cast<size_t>(index)];
        const std::string p = "blk." + std::to_string(index) + ".";
        const int64_t q_rows = int64_t{h_.n_heads} * h_.head_dim;
        const int64_t kv_rows = int64_t{h_.n_kv_heads} * h_.head_dim;
        vector(p + "attn_norm.weight", h_.n_embd, &layer.attn_norm);
        projection(&layer.qkv, h_.n_embd,
                   {{p + "attn_q.weight", q_rows},
                    {p + "attn_k.weight", kv_rows},
                    {p + "attn_v.weight", kv_rows}});
        plan_bias(p, q_rows, kv_rows, &layer);
        if (h_.family->qk_norm) {
            vector(p + "attn_q_norm.weight", h_.head_dim, &layer.q_norm);
            vector(p + "attn_k_norm.weight", h_.head_dim, &layer.k_norm);
        }
        projection(&layer.out, q_rows, {{p + "attn_output.weight", h_.n_embd}});
        if (h_.family->post_norms) {
            vector(p + "post_attention_norm.weight", h_.n_embd, &layer.post_attn_norm);
            vector(p + "post_ffw_norm.weight", h_.n_embd, &layer.post_ffn_norm);
        }
        vector(p + "ffn_norm.weight", h_.n_embd, &layer.ffn_norm);
        projection(&layer.gate_up, h_.n_embd,
                   {{p + "ffn_gate.weight", h_.n_ff}, {p + "ffn_up.weight", h_.n_ff}});
        projection(&layer.down, h_.n_ff, {{p + "ffn_down.weight", h_.n_embd}});
    }

    void plan_bias(const std::string& p, int64_t q_rows, int64_t kv_rows, LayerWeights* layer) {
        const bool any = file_.find(p + "attn_q.bias") != nullptr;
        if (!any && !h_.family->qkv_bias) return;
        std::vector<const GgufTensor*> parts;
        const std::pair<const char*, int64_t> names[] = {
            {"attn_q.bias", q_rows}, {"attn_k.bias", kv_rows}, {"attn_v.bias", kv_rows}};
        for (const auto& [name, n] : names) {
            const GgufTensor* t = take(p + name, n, 1, true);
            if (t == nullptr) return;
            if (t->type != GGML_TYPE_F32)
                return fail(Code::unsupported, "tensor " + p + name + " must be F32");
            parts.push_back(t);
        }
        add(parts, true,
            [layer](std::byte* d) { layer->qkv_bias = reinterpret_cast<const float*>(d); });
    }

    // A tensor that we do not use would change what the model computes.
    void check_leftovers() {
        for (const GgufTensor& t : file_.tensors())
            if (!used_.contains(t.name))
                fail(Code::unsupported, "tensor " + t.name + " is not part of the " +
                                            h_.family->name + " models that are supported");
    }

    Status fill(Wish* wish) {
        std::byte* const start = w_->arena_.data() + wish->offset;
        std::byte* at = start;
        for (const GgufTensor* t : wish->sources) {
            if (wish->pack) scratch_.resize(t->bytes);
            const std::span<std::byte> bytes(wish->pack ? scratch_.data() : at, t->bytes);
            QUIRE_TRY(file_.read(*t, bytes));
            if (wish->changes_kv) note(*t, bytes);
            at += wish->pack ? pack(*t, at) : t->bytes;
        }
        wish->bind(start);
        return {};
    }

    // From scratch_ to `out`; returns the bytes written.
    size_t pack(const GgufTensor& t, std::byte* out) const {
        const int64_t n_in = t.shape[0];
        const size_t row_bytes = ggml_row_size(static_cast<ggml_type>(t.type), n_in);
        packed::pack(t.type, scratch_.data(), row_bytes, n_in, rows_of(t), out);
        return packed::packed_bytes(*packed::layout_for(t.type, n_in, rows_of(t)), n_in,
                                    rows_of(t));
    }

    void note(const GgufTensor& t, std::span<const std::byte> bytes) {
        const Digest128 d = xxh3_128(bytes);
        identity_ += t.name + ' ' + std::to_string(t.type) + ' ' + shape_text(t.shape) + ' ' +
                     Hash128{d.hi, d.lo}.to_hex() + '\n';
    }

    void finish_digest() {
        const Digest128 d = sha256_128(std::as_bytes(std::span(identity_)));
        w_->kv_digest_ = {d.hi, d.lo};
    }

    const GgufFile& file_;
    const HParams& h_;
    Weights* w_;
    Status status_;
    std::vector<Wish> wishes_;
    std::set<std::string> used_;
    size_t bytes_ = 0;
    std::vector<std::byte> scratch_;
    std::string identity_;
};

Result<std::unique_ptr<Weights>> Weights::load(const GgufFile& file, const HParams& hparams) {
    std::unique_ptr<Weights> weights(new Weights);
    QUIRE_TRY(WeightLoader(file, hparams, weights.get()).run());
    return weights;
}

Weights::~Weights() {
    if (context_ != nullptr) ggml_free(context_);
}

void dequantise_row(const Matrix& matrix, int64_t row, float* out) {
    if (matrix.packed != nullptr)
        return packed::unpack_row(matrix.layout, matrix.packed, matrix.n_in, row, out);
    const ggml_tensor* t = matrix.ggml;
    const char* from = static_cast<const char*>(t->data) + row * static_cast<int64_t>(t->nb[1]);
    if (t->type == GGML_TYPE_F32) {
        memcpy(out, from, static_cast<size_t>(t->ne[0]) * sizeof(float));
        return;
    }
    ggml_get_type_traits(t->type)->to_float(from, out, t->ne[0]);
}

}  // namespace quire
