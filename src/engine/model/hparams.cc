#include "engine/model/hparams.h"

#include <cmath>
#include <cstdio>
#include <span>

namespace quire {
namespace {

Error bad(const GgufFile& file, Code code, const std::string& what) {
    return make_error(code, file.path() + ": " + what);
}

Result<const Family*> find_family(const GgufFile& file) {
    const auto arch = file.text("general.architecture");
    if (!arch) return bad(file, Code::invalid, "the key general.architecture is missing");
    std::string known;
    for (const Family& family : families()) {
        if (*arch == family.name) return &family;
        known += (known.empty() ? "" : ", ") + std::string(family.name);
    }
    return bad(file, Code::unsupported,
               "architecture '" + *arch + "' is not supported; supported: " + known);
}

// Reads "<architecture>.<suffix>" keys and remembers the first thing that is wrong.
class Reader {
 public:
    explicit Reader(const GgufFile& file, std::string prefix)
        : file_(file), prefix_(std::move(prefix)) {}

    int32_t count(const char* suffix, int64_t max, std::optional<int64_t> fallback = {}) {
        const std::string key = prefix_ + suffix;
        const auto value = file_.integer(key);
        if (!value && file_.array_size(key) > 0)
            fail(Code::unsupported, key + " differs from layer to layer, which is not supported");
        const int64_t v = value.value_or(fallback.value_or(0));
        if (!value && !fallback) fail(Code::invalid, "the key " + key + " is missing");
        if (v < 1 || v > max)
            fail(Code::invalid, key + " is " + std::to_string(v) + ", which is not from 1 to " +
                                    std::to_string(max));
        return static_cast<int32_t>(v);
    }

    double real(const char* suffix, std::optional<double> fallback = {}) {
        const std::string key = prefix_ + suffix;
        const auto value = file_.number(key);
        if (!value && !fallback) fail(Code::invalid, "the key " + key + " is missing");
        const double v = value.value_or(fallback.value_or(0));
        if (!std::isfinite(v) || v < 0) fail(Code::invalid, key + " is not a sensible number");
        return v;
    }

    void fail(Code code, const std::string& what) {
        if (status_.ok()) status_ = bad(file_, code, what);
    }
    Status status() const { return status_; }

 private:
    const GgufFile& file_;
    std::string prefix_;
    Status status_;
};

void read_rope(const GgufFile& file, const std::string& prefix, Reader* in, HParams* h) {
    h->rope_dim = in->count("rope.dimension_count", 1024, h->head_dim);
    h->rope_base = in->real("rope.freq_base", 10000.0);
    h->window_rope_base = in->real("rope.freq_base_swa", h->family->window_rope_base);
    const std::string kind = file.text(prefix + "rope.scaling.type").value_or("none");
    const double old_factor = in->real("rope.scale_linear", 0.0);
    double factor = in->real("rope.scaling.factor", old_factor);
    if (kind != "none" && kind != "linear")
        in->fail(Code::unsupported, "rope scaling '" + kind + "' is not supported (none, linear)");
    if (kind == "none" && old_factor == 0.0) factor = 1.0;
    h->rope_scale = factor == 0.0 ? 1.0 : 1.0 / factor;
    if (h->rope_dim > h->head_dim || h->rope_dim % 2 != 0)
        in->fail(Code::invalid, prefix + "rope.dimension_count does not fit the head");
    if (h->rope_base <= 0) in->fail(Code::invalid, prefix + "rope.freq_base must be positive");
}

void read_windows(const GgufFile& file, const std::string& prefix, Reader* in, HParams* h) {
    h->layer_is_window.assign(static_cast<size_t>(h->n_layers), false);
    if (h->family->window_period == 0) {
        // Families without windows in our graph must not silently ignore one in the file.
        if (file.integer(prefix + "attention.sliding_window").value_or(0) > 0 &&
            file.boolean(prefix + "use_sliding_window").value_or(false))
            in->fail(Code::unsupported, "sliding windows of this family are not supported");
        return;
    }
    h->window_tokens = in->count("attention.sliding_window", 1 << 24, 1 << 24);
    if (!file.integer(prefix + "attention.sliding_window")) {
        h->window_tokens = 0;
        return;
    }
    const std::string key = prefix + "attention.sliding_window_pattern";
    if (const auto listed = file.booleans(key)) {
        if (listed->size() < h->layer_is_window.size())
            return in->fail(Code::invalid, key + " has fewer entries than the model has layers");
        for (size_t i = 0; i < h->layer_is_window.size(); ++i) h->layer_is_window[i] = (*listed)[i];
        return;
    }
    const int64_t period = file.integer(key).value_or(h->family->window_period);
    if (period < 1) return in->fail(Code::invalid, key + " must be at least 1");
    for (int32_t i = 0; i < h->n_layers; ++i)
        h->layer_is_window[static_cast<size_t>(i)] = i % period < period - 1;
}

void check_attention(const std::string& prefix, Reader* in, HParams* h) {
    if (h->n_heads % h->n_kv_heads != 0)
        in->fail(Code::invalid, prefix + "attention.head_count is not a multiple of head_count_kv");
    if (h->head_dim % 16 != 0 || h->head_dim > 256)
        in->fail(Code::unsupported, "a head dimension of " + std::to_string(h->head_dim) +
                                        " is not supported (multiples of 16 up to 256)");
}

}  // namespace

Result<HParams> HParams::from_gguf(const GgufFile& file) {
    const auto family = find_family(file);
    if (!family) return family.error();
    HParams h;
    h.family = *family;
    h.name = file.text("general.name").value_or("");
    const std::string prefix = std::string(h.family->name) + ".";
    Reader in(file, prefix);

    h.n_layers = in.count("block_count", kMaxGroupLayers);
    h.n_embd = in.count("embedding_length", 1 << 20);
    h.n_ff = in.count("feed_forward_length", 1 << 22);
    h.n_heads = in.count("attention.head_count", 4096);
    h.context_tokens = in.count("context_length", 1 << 28);
    if (!in.status()) return in.status().error();
    h.n_kv_heads = in.count("attention.head_count_kv", 4096, h.n_heads);
    h.head_dim = in.count("attention.key_length", 1024, h.n_embd / h.n_heads);
    const int32_t value_dim = in.count("attention.value_length", 1024, h.n_embd / h.n_heads);
    if (value_dim != h.head_dim)
        in.fail(Code::unsupported, "K and V heads of different size are not supported");
    if (file.integer(prefix + "expert_count").value_or(0) > 0)
        in.fail(Code::unsupported, "mixture-of-experts models are not supported");
    h.norm_eps = static_cast<float>(in.real("attention.layer_norm_rms_epsilon"));
    h.final_softcap = static_cast<float>(in.real("final_logit_softcapping", 0.0));
    if (!in.status()) return in.status().error();
    check_attention(prefix, &in, &h);
    read_rope(file, prefix, &in, &h);
    read_windows(file, prefix, &in, &h);

    // Gemma 3 27B alone (62 layers) scales by the model's width instead of the head's.
    const bool by_width = h.family->post_norms && h.n_layers == 62;
    const double scaled_dim = by_width ? h.n_embd / h.n_heads : h.head_dim;
    h.attention_scale = static_cast<float>(in.real("attention.scale", 1.0 / std::sqrt(scaled_dim)));

    const GgufTensor* embedding = file.find("token_embd.weight");
    if (embedding == nullptr) in.fail(Code::invalid, "the tensor token_embd.weight is missing");
    if (!in.status()) return in.status().error();
    h.n_vocab = static_cast<int32_t>(embedding->shape[1]);
    const size_t listed = file.array_size("tokenizer.ggml.tokens");
    if (listed != static_cast<size_t>(h.n_vocab))
        return bad(file, Code::invalid,
                   "the tokenizer lists " + std::to_string(listed) +
                       " tokens but token_embd.weight has " + std::to_string(h.n_vocab));
    return h;
}

KvLayout HParams::kv_layout(uint32_t block_tokens) const {
    KvLayout layout;
    layout.block_tokens = block_tokens;
    for (const bool window : {false, true}) {
        KvGroup group;
        group.kind = window ? KvKind::window : KvKind::full;
        group.window_tokens = window ? static_cast<uint32_t>(window_tokens) : 0;
        group.kv_heads = static_cast<uint32_t>(n_kv_heads);
        group.head_dim = static_cast<uint32_t>(head_dim);
        for (size_t i = 0; i < layer_is_window.size(); ++i)
            if (layer_is_window[i] == window) group.layers.push_back(static_cast<uint16_t>(i));
        if (!group.layers.empty()) layout.groups.push_back(std::move(group));
    }
    return layout;
}

std::string HParams::identity() const {
    char text[512];
    snprintf(text, sizeof text,
             "%s layers=%d embd=%d heads=%d kv=%d dim=%d rope=%d ff=%d vocab=%d window=%d eps=%a "
             "scale=%a base=%a ropescale=%a wbase=%a ",
             family->name, n_layers, n_embd, n_heads, n_kv_heads, head_dim, rope_dim, n_ff, n_vocab,
             window_tokens, static_cast<double>(norm_eps), static_cast<double>(attention_scale),
             rope_base, rope_scale, window_rope_base);
    std::string out = text;
    for (const bool window : layer_is_window) out += window ? 'w' : 'f';
    return out;
}

}  // namespace quire
