#include "engine/model/tiny_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <ggml.h>
#include <gguf.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"

namespace quire::test {
namespace {

// Deterministic values of about a normal distribution.
class Random {
 public:
    explicit Random(uint64_t seed) : state_(seed * 2654435761 + 1) {}
    float next() {
        float sum = 0;
        for (int i = 0; i < 4; ++i) {
            state_ = state_ * 6364136223846793005 + 1442695040888963407;
            sum += static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
        }
        return sum * 0.866f;
    }

 private:
    uint64_t state_;
};

class Writer {
 public:
    explicit Writer(const TinySpec& spec) : spec_(spec), random_(spec.seed) {
        gguf_ = gguf_init_empty();
        context_ =
            ggml_init({.mem_size = size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false});
    }
    ~Writer() {
        gguf_free(gguf_);
        ggml_free(context_);
    }

    void u32(const char* suffix, int32_t v) {
        gguf_set_val_u32(gguf_, (spec_.family + "." + suffix).c_str(), static_cast<uint32_t>(v));
    }
    void f32(const char* suffix, float v) {
        gguf_set_val_f32(gguf_, (spec_.family + "." + suffix).c_str(), v);
    }

    void metadata() {
        gguf_set_val_str(gguf_, "general.architecture", spec_.family.c_str());
        gguf_set_val_str(gguf_, "general.name", "tiny");
        u32("block_count", spec_.n_layers);
        u32("embedding_length", spec_.n_embd);
        u32("feed_forward_length", spec_.n_ff);
        u32("attention.head_count", spec_.n_heads);
        u32("attention.head_count_kv", spec_.n_kv_heads);
        u32("attention.key_length", spec_.head_dim);
        u32("attention.value_length", spec_.head_dim);
        u32("context_length", spec_.context_tokens);
        f32("attention.layer_norm_rms_epsilon", 1e-5f);
        f32("rope.freq_base", 100000.0f);
        if (spec_.family == "gemma3") u32("attention.sliding_window", spec_.window);
        std::vector<std::string> names;
        std::vector<const char*> pointers;
        for (int32_t i = 0; i < spec_.n_vocab; ++i) names.push_back("t" + std::to_string(i));
        for (const std::string& n : names) pointers.push_back(n.c_str());
        gguf_set_arr_str(gguf_, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    }

    void tensor(const std::string& name, int64_t n_in, int64_t n_out, float mean, float spread,
                bool matrix) {
        std::vector<float>& values = tensors_[name];
        for (int64_t i = 0; i < n_in * n_out; ++i) values.push_back(mean + spread * random_.next());
        const auto type = matrix ? static_cast<ggml_type>(spec_.matrix_type) : GGML_TYPE_F32;
        ggml_tensor* t = n_out == 1 ? ggml_new_tensor_1d(context_, type, n_in)
                                    : ggml_new_tensor_2d(context_, type, n_in, n_out);
        ggml_set_name(t, name.c_str());
        ggml_quantize_chunk(type, values.data(), t->data, 0, n_out, n_in, nullptr);
        gguf_add_tensor(gguf_, t);
    }
    void matrix(const std::string& name, int64_t n_in, int64_t n_out) {
        tensor(name, n_in, n_out, 0, 1.0f / std::sqrt(static_cast<float>(n_in)), true);
    }
    void norm(const std::string& name, int64_t n) { tensor(name, n, 1, 1, 0.2f, false); }

    void layer(int32_t index) {
        const std::string p = "blk." + std::to_string(index) + ".";
        const int64_t q = int64_t{spec_.n_heads} * spec_.head_dim;
        const int64_t kv = int64_t{spec_.n_kv_heads} * spec_.head_dim;
        norm(p + "attn_norm.weight", spec_.n_embd);
        matrix(p + "attn_q.weight", spec_.n_embd, q);
        matrix(p + "attn_k.weight", spec_.n_embd, kv);
        matrix(p + "attn_v.weight", spec_.n_embd, kv);
        if (spec_.family == "qwen2") {
            tensor(p + "attn_q.bias", q, 1, 0, 0.3f, false);
            tensor(p + "attn_k.bias", kv, 1, 0, 0.3f, false);
            tensor(p + "attn_v.bias", kv, 1, 0, 0.3f, false);
        }
        if (spec_.family == "qwen3" || spec_.family == "gemma3") {
            norm(p + "attn_q_norm.weight", spec_.head_dim);
            norm(p + "attn_k_norm.weight", spec_.head_dim);
        }
        matrix(p + "attn_output.weight", q, spec_.n_embd);
        if (spec_.family == "gemma3") {
            norm(p + "post_attention_norm.weight", spec_.n_embd);
            norm(p + "post_ffw_norm.weight", spec_.n_embd);
        }
        norm(p + "ffn_norm.weight", spec_.n_embd);
        matrix(p + "ffn_gate.weight", spec_.n_embd, spec_.n_ff);
        matrix(p + "ffn_up.weight", spec_.n_embd, spec_.n_ff);
        matrix(p + "ffn_down.weight", spec_.n_ff, spec_.n_embd);
    }

    TinyModel finish() {
        std::string path = std::filesystem::temp_directory_path() / "quire_tiny_XXXXXX";
        const int fd = mkstemp(path.data());
        QUIRE_CHECK(fd >= 0, "cannot make a temporary file");
        close(fd);
        QUIRE_CHECK(gguf_write_to_file(gguf_, path.c_str(), false), "cannot write a tiny model");
        return {spec_, path, std::move(tensors_)};
    }

 private:
    TinySpec spec_;
    Random random_;
    gguf_context* gguf_;
    ggml_context* context_;
    std::map<std::string, std::vector<float>> tensors_;
};

// Files to delete when the program ends.
struct Cleanup {
    std::vector<std::string> paths;
    ~Cleanup() {
        for (const std::string& p : paths) unlink(p.c_str());
    }
};

}  // namespace

TinyModel write_tiny_model(const TinySpec& spec) {
    static Cleanup cleanup;
    Writer w(spec);
    w.metadata();
    w.matrix("token_embd.weight", spec.n_embd, spec.n_vocab);
    w.norm("output_norm.weight", spec.n_embd);
    for (int32_t i = 0; i < spec.n_layers; ++i) w.layer(i);
    TinyModel model = w.finish();
    cleanup.paths.push_back(model.path);
    return model;
}

void PlainPages::Free::operator()(std::byte* p) const {
    free(p);
}

PlainPages::PlainPages(const KvLayout& layout, int32_t n_tokens) : layout_(layout) {
    const auto blocks = static_cast<size_t>(n_tokens) / layout.block_tokens + 1;
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        std::vector<std::byte*>& table = tables_.emplace_back();
        for (size_t b = 0; b < blocks; ++b) {
            void* p = aligned_alloc(kSlabAlign, layout.slab_bytes(g));
            memset(p, 0, layout.slab_bytes(g));
            table.push_back(static_cast<std::byte*>(p));
            owned_.emplace_back(static_cast<std::byte*>(p));
        }
    }
}

StepSequence PlainPages::sequence(TokenSpan tokens, int32_t first_pos, int32_t n_logit_rows) {
    StepSequence s{.tokens = tokens, .first_pos = first_pos, .n_logit_rows = n_logit_rows};
    for (size_t g = 0; g < tables_.size(); ++g) s.slabs[g] = tables_[g].data();
    return s;
}

std::vector<std::byte> PlainPages::bytes() const {
    std::vector<std::byte> all;
    for (size_t g = 0; g < tables_.size(); ++g)
        for (const std::byte* slab : tables_[g])
            all.insert(all.end(), slab, slab + layout_.slab_bytes(g));
    return all;
}

uint16_t PlainPages::half_at(size_t group, size_t layer, int32_t head, int32_t pos,
                             size_t index) const {
    const std::byte* page = tables_[group][static_cast<size_t>(pos) / layout_.block_tokens] +
                            layout_.layer_offset(group, layer) +
                            static_cast<size_t>(head) * layout_.page_bytes(group);
    uint16_t bits = 0;
    memcpy(&bits, page + index * sizeof bits, sizeof bits);
    return bits;
}

float PlainPages::k(size_t group, size_t layer, int32_t head, int32_t pos, int32_t dim) const {
    const size_t slot = static_cast<size_t>(pos) % layout_.block_tokens;
    const size_t index = static_cast<size_t>(dim) * layout_.block_tokens + slot;
    return ggml_fp16_to_fp32(half_at(group, layer, head, pos, index));
}

float PlainPages::v(size_t group, size_t layer, int32_t head, int32_t pos, int32_t dim) const {
    const size_t head_dim = layout_.groups[group].head_dim;
    const size_t slot = static_cast<size_t>(pos) % layout_.block_tokens;
    // V follows K's head_dim x block_tokens values.
    const size_t index = (layout_.block_tokens + slot) * head_dim + static_cast<size_t>(dim);
    return ggml_fp16_to_fp32(half_at(group, layer, head, pos, index));
}

std::vector<std::string> real_models() {
    const char* cache = getenv("XDG_CACHE_HOME");
    const char* home = getenv("HOME");
    std::filesystem::path dir = cache != nullptr && *cache != 0
                                    ? std::filesystem::path(cache)
                                    : std::filesystem::path(home != nullptr ? home : "") / ".cache";
    dir /= "quire/models";
    std::vector<std::string> found;
    for (const char* name : {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"})
        if (std::filesystem::exists(dir / name)) found.push_back(dir / name);
    return found;
}

}  // namespace quire::test
