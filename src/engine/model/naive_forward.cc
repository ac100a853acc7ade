#include "engine/model/naive_forward.h"

#include <array>
#include <cmath>

#include <ggml.h>

namespace quire::test {
namespace {

using Vec = std::vector<double>;

class Naive {
 public:
    Naive(const TinyModel& m, const KvCoding& coding) : m_(m), s_(m.spec), coding_(coding) {
        k_.resize(static_cast<size_t>(s_.n_layers));
        v_ = decoded_k_ = decoded_v_ = k_;
        gemma_ = s_.family == "gemma3";
    }

    std::vector<float> position(TokenId token, int32_t pos) {
        const auto d = static_cast<size_t>(s_.n_embd);
        Vec x(d);
        for (size_t i = 0; i < d; ++i)
            x[i] = at("token_embd.weight")[static_cast<size_t>(token) * d + i] *
                   (gemma_ ? std::sqrt(static_cast<double>(d)) : 1.0);
        for (int32_t l = 0; l < s_.n_layers; ++l) layer(l, pos, &x);
        const Vec out = times("token_embd.weight", norm("output_norm.weight", x));
        return {out.begin(), out.end()};
    }

 private:
    const std::vector<float>& at(const std::string& name) const { return m_.tensors.at(name); }

    Vec norm(const std::string& name, const Vec& x) const {
        double sum = 0;
        for (const double v : x) sum += v * v;
        const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + 1e-5);
        Vec out(x.size());
        for (size_t i = 0; i < x.size(); ++i)
            out[i] = x[i] * scale * static_cast<double>(at(name)[i]);
        return out;
    }

    Vec times(const std::string& name, const Vec& x) const {
        const std::vector<float>& w = at(name);
        Vec out(w.size() / x.size());
        for (size_t o = 0; o < out.size(); ++o)
            for (size_t i = 0; i < x.size(); ++i)
                out[o] += static_cast<double>(w[o * x.size() + i]) * x[i];
        return out;
    }

    void rope(Vec* head, int32_t pos, double base) const {
        const size_t n = head->size();
        for (size_t i = 0; i < n / 2; ++i) {
            const double angle =
                pos * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(n));
            const size_t a = s_.family == "llama" ? 2 * i : i;
            const size_t b = s_.family == "llama" ? 2 * i + 1 : i + n / 2;
            const double x = (*head)[a];
            const double y = (*head)[b];
            (*head)[a] = x * std::cos(angle) - y * std::sin(angle);
            (*head)[b] = x * std::sin(angle) + y * std::cos(angle);
        }
    }

    std::vector<Vec> heads(const std::string& p, const char* which, const Vec& x, int32_t count,
                           int32_t pos, double base) const {
        Vec all = times(p + "attn_" + which + ".weight", x);
        if (s_.family == "qwen2")
            for (size_t i = 0; i < all.size(); ++i)
                all[i] += static_cast<double>(at(p + "attn_" + which + ".bias")[i]);
        std::vector<Vec> out;
        for (int32_t h = 0; h < count; ++h) {
            Vec head(all.begin() + h * s_.head_dim, all.begin() + (h + 1) * s_.head_dim);
            if (*which != 'v') {
                if (s_.family == "qwen3" || gemma_)
                    head = norm(p + "attn_" + which + "_norm.weight", head);
                rope(&head, pos, base);
            }
            out.push_back(head);
        }
        return out;
    }

    static void round_halves(std::vector<Vec>* hs) {
        for (Vec& h : *hs)
            for (double& v : h) v = ggml_fp16_to_fp32(ggml_fp32_to_fp16(static_cast<float>(v)));
    }

    // Rows of all heads as the codec gives them back.
    std::vector<Vec> decoded(const std::vector<Vec>& hs, int32_t l, int32_t pos, double base,
                             bool keys) const {
        std::vector<Vec> out;
        const codec::Geometry geometry{static_cast<uint32_t>(s_.head_dim), 1, 16};
        const codec::PageCodecOps& ops = codec::row_of(coding_.spec).ops().front();
        for (size_t h = 0; h < hs.size(); ++h) {
            std::vector<float> row(hs[h].begin(), hs[h].end());
            alignas(codec::kPageAlign) std::array<std::byte, 65536> page{};
            if (keys) add_turned(&row, l, static_cast<uint32_t>(h), pos, base, -1);
            const codec::HeadSidecar sidecar =
                coding_.head(static_cast<uint32_t>(l), static_cast<uint32_t>(h));
            ops.encode({.spec = coding_.spec_of(static_cast<uint32_t>(l)),
                        .geometry = geometry,
                        .sidecar = sidecar,
                        .k = keys ? row.data() : nullptr,
                        .v = keys ? nullptr : row.data(),
                        .last = 1,
                        .page = page.data()});
            ops.decode({.spec = coding_.spec_of(static_cast<uint32_t>(l)),
                        .geometry = geometry,
                        .sidecar = sidecar,
                        .page = page.data(),
                        .k = keys ? row.data() : nullptr,
                        .v = keys ? nullptr : row.data(),
                        .last = 1});
            if (keys) add_turned(&row, l, static_cast<uint32_t>(h), pos, base, 1);
            out.emplace_back(row.begin(), row.end());
        }
        return out;
    }

    // The turned mean of a head's strongest pairs at a position.
    void add_turned(std::vector<float>* key, int32_t l, uint32_t head, int32_t pos, double base,
                    double sign) const {
        if (coding_.turns == nullptr) return;
        Vec mean(static_cast<size_t>(s_.head_dim));
        for (const kernels::AttnPairMean& m : coding_.turns->of(static_cast<uint32_t>(l), head)) {
            mean[static_cast<size_t>(m.x)] = m.mean_x;
            mean[static_cast<size_t>(m.y)] = m.mean_y;
        }
        rope(&mean, pos, base);
        for (size_t i = 0; i < mean.size(); ++i) (*key)[i] += static_cast<float>(sign * mean[i]);
    }

    // Whether the query at pos reads p's numbers as codes.
    bool coded(size_t layer, int32_t pos, int32_t p) const {
        const auto span = static_cast<int32_t>(coding_.recent_tokens);
        return coding_.codes(static_cast<uint32_t>(layer)) &&
               p >= static_cast<int32_t>(coding_.sink_tokens) && p < pos / span * span;
    }
    const Vec& k(size_t layer, int32_t pos, int32_t p, size_t head) const {
        return (coded(layer, pos, p) ? decoded_k_ : k_)[layer][static_cast<size_t>(p)][head];
    }
    const Vec& v(size_t layer, int32_t pos, int32_t p, size_t head) const {
        return (coded(layer, pos, p) ? decoded_v_ : v_)[layer][static_cast<size_t>(p)][head];
    }

    Vec attend(int32_t l, int32_t pos, const std::vector<Vec>& q, bool window) const {
        Vec out;
        const double scale = 1 / std::sqrt(static_cast<double>(s_.head_dim));
        const auto layer = static_cast<size_t>(l);
        const int32_t from = window ? std::max(0, pos - s_.window + 1) : 0;
        for (int32_t h = 0; h < s_.n_heads; ++h) {
            const auto kv = static_cast<size_t>(h / (s_.n_heads / s_.n_kv_heads));
            Vec weights;
            double sum = 0;
            for (int32_t p = from; p <= pos; ++p) {
                double dot = 0;
                for (size_t i = 0; i < static_cast<size_t>(s_.head_dim); ++i)
                    dot += q[static_cast<size_t>(h)][i] * k(layer, pos, p, kv)[i];
                weights.push_back(std::exp(dot * scale));
                sum += weights.back();
            }
            for (size_t i = 0; i < static_cast<size_t>(s_.head_dim); ++i) {
                double value = 0;
                for (int32_t p = from; p <= pos; ++p)
                    value += weights[static_cast<size_t>(p - from)] / sum * v(layer, pos, p, kv)[i];
                out.push_back(value);
            }
        }
        return out;
    }

    void layer(int32_t l, int32_t pos, Vec* x) {
        const std::string p = "blk." + std::to_string(l) + ".";
        const bool window = gemma_ && l % 6 != 5;
        const double base = window ? 10000.0 : 100000.0;
        const Vec normed = norm(p + "attn_norm.weight", *x);
        const auto q = heads(p, "q", normed, s_.n_heads, pos, base);
        auto k = heads(p, "k", normed, s_.n_kv_heads, pos, base);
        auto v = heads(p, "v", normed, s_.n_kv_heads, pos, base);
        if (coding_.any()) {
            decoded_k_[static_cast<size_t>(l)].push_back(decoded(k, l, pos, base, true));
            decoded_v_[static_cast<size_t>(l)].push_back(decoded(v, l, pos, base, false));
        }
        round_halves(&k);
        round_halves(&v);
        k_[static_cast<size_t>(l)].push_back(k);
        v_[static_cast<size_t>(l)].push_back(v);
        Vec delta = times(p + "attn_output.weight", attend(l, pos, q, window));
        if (gemma_) delta = norm(p + "post_attention_norm.weight", delta);
        for (size_t i = 0; i < x->size(); ++i) (*x)[i] += delta[i];
        const Vec mid = norm(p + "ffn_norm.weight", *x);
        Vec gate = times(p + "ffn_gate.weight", mid);
        const Vec up = times(p + "ffn_up.weight", mid);
        for (size_t i = 0; i < gate.size(); ++i) {
            const double g = gate[i];
            const double gelu =
                0.5 * g * (1 + std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g)));
            gate[i] = (gemma_ ? gelu : g / (1 + std::exp(-g))) * up[i];
        }
        delta = times(p + "ffn_down.weight", gate);
        if (gemma_) delta = norm(p + "post_ffw_norm.weight", delta);
        for (size_t i = 0; i < x->size(); ++i) (*x)[i] += delta[i];
    }

    const TinyModel& m_;
    const TinySpec& s_;
    KvCoding coding_;
    bool gemma_ = false;
    std::vector<std::vector<std::vector<Vec>>> k_, v_;  // [layer][position][kv head][dim]
    std::vector<std::vector<std::vector<Vec>>> decoded_k_, decoded_v_;
};

}  // namespace

std::vector<std::vector<float>> naive_logits(const TinyModel& model, TokenSpan tokens,
                                             const KvCoding& coding) {
    Naive naive(model, coding);
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < tokens.size(); ++i)
        out.push_back(naive.position(tokens[i], static_cast<int32_t>(i)));
    return out;
}

}  // namespace quire::test
