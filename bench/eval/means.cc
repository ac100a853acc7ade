#include "bench/eval/means.h"

#include <algorithm>

#include "bench/eval/kv_pages.h"

namespace quire::bench {
namespace {

// Computes the text's pages; a step without logits ends before the last layer's attention.
Status fill(const GgufModel& model, const std::vector<TokenId>& text, uint32_t threads,
            KvPages* pages) {
    auto forward = span_forward(model, threads);
    if (!forward.ok()) return forward.error();
    const auto n = static_cast<uint32_t>(text.size());
    for (uint32_t at = 0; at < n; at += kSpanTokens) {
        const uint32_t take = std::min(kSpanTokens, n - at);
        const StepSequence s =
            pages->sequence(TokenSpan(text).subspan(at, take), static_cast<int32_t>(at), 0);
        if (auto done = (*forward)->step({&s, 1}); !done.ok()) return done.error();
    }
    return {};
}

std::vector<float> mean_of(const std::vector<float>& rows, uint32_t dims) {
    std::vector<double> sums(dims);
    for (size_t i = 0; i < rows.size(); ++i) sums[i % dims] += double{rows[i]};
    std::vector<float> mean;
    for (const double sum : sums)
        mean.push_back(static_cast<float>(sum * dims / static_cast<double>(rows.size())));
    return mean;
}

}  // namespace

ModelMeans::ModelMeans(const GgufModel& model) : style_(model.hparams().family->rope) {
    const HParams& h = model.hparams();
    const float* factors = model.weights().rope_factors();
    ropes_.emplace_back(h.rope_dim, h.rope_base, h.rope_scale, factors);
    if (h.window_tokens > 0) ropes_.emplace_back(h.rope_dim, h.window_rope_base, 1.0, factors);
    layer_rope_.resize(static_cast<size_t>(h.n_layers));
    heads_.resize(layer_rope_.size());
    for (const KvGroup& group : model.kv_layout(16).groups)
        for (const uint16_t layer : group.layers)
            layer_rope_[layer] = group.kind == KvKind::window ? ropes_.size() - 1 : 0;
}

void ModelMeans::rotate(uint32_t layer, uint32_t head, uint32_t first, uint32_t last,
                        std::vector<float>* out) const {
    const RopeTable& rope = rope_of(layer);
    const std::vector<float>& mean = of(layer, head).k_before;
    std::vector<float> table(2 * static_cast<size_t>(rope.pairs()));
    out->resize((last - first) * mean.size());
    float* row = out->data();
    for (uint32_t t = first; t < last; ++t, row += mean.size()) {
        std::copy(mean.begin(), mean.end(), row);
        rope.fill(static_cast<int32_t>(t), table.data());
        rope_rotate(style_, rope.pairs(), table.data(), row);
    }
}

Result<ModelMeans> ModelMeans::learn(const GgufModel& model, const std::vector<TokenId>& text,
                                     uint32_t threads) {
    const auto n = static_cast<uint32_t>(text.size());
    const KvLayout layout = model.kv_layout(16);
    auto pages = KvPages::create(layout, n);
    if (!pages.ok()) return pages.error();
    QUIRE_TRY(fill(model, text, threads, &*pages));
    ModelMeans means(model);
    for_each_head(layout, kSinkTokens, n,
                  [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                      std::vector<float>& v) {
                      const uint32_t layer = group.layers[rows.layer_in_group];
                      const uint32_t dims = group.head_dim;
                      const RopeTable& rope = means.rope_of(layer);
                      pages->read(rows, k.data(), v.data());
                      HeadMeans mean{.k = mean_of(k, dims), .k_before = {}, .v = mean_of(v, dims)};
                      // Back to position 0: the same rotation with the sines turned round.
                      std::vector<float> table(2 * static_cast<size_t>(rope.pairs()));
                      for (uint32_t t = rows.first; t < rows.last; ++t) {
                          rope.fill(static_cast<int32_t>(t), table.data());
                          for (auto sine = table.begin() + rope.pairs(); sine != table.end();
                               ++sine)
                              *sine = -*sine;
                          rope_rotate(means.style_, rope.pairs(), table.data(),
                                      k.data() + size_t{t - rows.first} * dims);
                      }
                      mean.k_before = mean_of(k, dims);
                      means.heads_[layer].push_back(std::move(mean));
                  });
    return means;
}

}  // namespace quire::bench
