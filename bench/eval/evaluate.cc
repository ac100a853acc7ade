#include "bench/eval/evaluate.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/eval/kv_pages.h"

namespace quire::bench {
namespace {

// Calls f(rows, model layer, buffers) for every KV head of every layer.
template <typename F>
void for_each_head(const KvLayout& layout, uint32_t first, uint32_t last, F f) {
    std::vector<float> k, v;
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        const KvGroup& group = layout.groups[g];
        k.resize(size_t{last - first} * group.head_dim);
        v.resize(k.size());
        for (size_t i = 0; i < group.layers.size(); ++i)
            for (uint32_t head = 0; head < group.kv_heads; ++head)
                f(KvPages::Rows{g, i, head, first, last}, group, k, v);
    }
}

Result<std::unique_ptr<Forward>> make_forward(const GgufModel& model, const EvalOptions& options) {
    return Forward::create(model, {.n_threads = static_cast<int32_t>(options.threads),
                                   .max_rows = kSpanTokens,
                                   .max_sequences = 1,
                                   .max_logit_rows = kSpanTokens});
}

class Run {
 public:
    Run(const std::vector<TokenId>& text, const std::vector<std::unique_ptr<Candidate>>& candidates,
        const ModelMeans& means, const EvalOptions& options)
        : text_(text), candidates_(candidates), means_(means), options_(options) {}

    Result<std::vector<EvalRow>> run(const GgufModel& model) {
        auto forward = make_forward(model, options_);
        if (!forward.ok()) return forward.error();
        forward_ = std::move(forward).value();
        // The reference is the last of the caches.
        for (size_t i = 0; i <= candidates_.size(); ++i) {
            auto pages = KvPages::create(forward_->layout(), options_.tokens);
            if (!pages.ok()) return pages.error();
            pages_.push_back(std::move(pages).value());
        }
        tallies_.resize(candidates_.size());
        for (uint32_t at = 0; at < options_.tokens; at += kSpanTokens) {
            if (options_.say)
                options_.say(fmt::format("{} of {} tokens, {} candidates", at, options_.tokens,
                                         candidates_.size()));
            QUIRE_TRY(span(at, std::min(kSpanTokens, options_.tokens - at)));
        }
        return rows();
    }

 private:
    Result<std::span<const float>> step(const KvPages& pages, uint32_t at, uint32_t n) {
        const bool judged = at >= options_.tokens / 2;
        const StepSequence s =
            pages.sequence(TokenSpan(text_).subspan(at, n), static_cast<int32_t>(at),
                           judged ? static_cast<int32_t>(n) : 0);
        auto result = forward_->step({&s, 1});
        if (!result.ok()) return result.error();
        return result->logits;
    }

    Status span(uint32_t at, uint32_t n) {
        auto exact = step(pages_.back(), at, n);
        if (!exact.ok()) return exact.error();
        // The next step overwrites logits.
        reference_.assign(exact->begin(), exact->end());
        const size_t vocab = reference_.size() / n;
        std::vector<LogitRow> rows;
        for (uint32_t r = 0; vocab > 0 && r < n; ++r)
            rows.emplace_back(std::span(reference_).subspan(r * vocab, vocab));
        for (size_t c = 0; c < candidates_.size(); ++c) {
            auto logits = step(pages_[c], at, n);
            if (!logits.ok()) return logits.error();
            for (uint32_t r = 0; r < rows.size(); ++r)
                tallies_[c].add(rows[r], LogitRow(logits->subspan(r * vocab, vocab)),
                                text_[at + r + 1]);
            close(*candidates_[c], &pages_[c], at, at + n);
        }
        return {};
    }

    void close(const Candidate& candidate, KvPages* pages, uint32_t first, uint32_t last) {
        first = std::max(first, kSinkTokens);
        if (first >= last) return;
        for_each_head(pages->layout(), first, last,
                      [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                          std::vector<float>& v) {
                          const uint32_t layer = group.layers[rows.layer_in_group];
                          pages->read(rows, k.data(), v.data());
                          candidate.apply({.k = k.data(),
                                           .v = v.data(),
                                           .tokens = last - first,
                                           .head_dim = group.head_dim,
                                           .layer = layer,
                                           .means = &means_[layer][rows.head]});
                          pages->write(rows, k.data(), v.data());
                      });
    }

    std::vector<EvalRow> rows() const {
        std::vector<EvalRow> out;
        const uint32_t head_dim = forward_->layout().groups[0].head_dim;
        const double n = options_.tokens;
        const double exact = kSinkTokens + kSpanTokens / 2.0;  // half a span is open on average
        for (size_t c = 0; c < candidates_.size(); ++c) {
            const double bits = candidates_[c]->bits(head_dim);
            out.push_back({.name = candidates_[c]->name(),
                           .reference = candidates_[c]->reference(),
                           .bits = bits,
                           .total_bits = (bits * (n - exact) + 16 * exact) / n,
                           .divergence = tallies_[c].result()});
        }
        return out;
    }

    const std::vector<TokenId>& text_;
    const std::vector<std::unique_ptr<Candidate>>& candidates_;
    const ModelMeans& means_;
    const EvalOptions& options_;
    std::unique_ptr<Forward> forward_;
    std::vector<KvPages> pages_;
    std::vector<float> reference_;
    std::vector<DivergenceTally> tallies_;
};

}  // namespace

Result<ModelMeans> learn_means(const GgufModel& model, const EvalOptions& options) {
    auto forward = make_forward(model, options);
    if (!forward.ok()) return forward.error();
    const KvLayout& layout = (*forward)->layout();
    const auto n = static_cast<uint32_t>(options.calibration.size());
    auto pages = KvPages::create(layout, n);
    if (!pages.ok()) return pages.error();
    for (uint32_t at = 0; at < n; at += kSpanTokens) {
        const uint32_t take = std::min(kSpanTokens, n - at);
        const StepSequence s = pages->sequence(TokenSpan(options.calibration).subspan(at, take),
                                               static_cast<int32_t>(at), 0);
        // Without logits a step ends before the last layer's attention; K and V are all there.
        if (auto done = (*forward)->step({&s, 1}); !done.ok()) return done.error();
    }
    ModelMeans means(static_cast<size_t>(model.hparams().n_layers));
    for_each_head(layout, kSinkTokens, n,
                  [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                      std::vector<float>& v) {
                      pages->read(rows, k.data(), v.data());
                      const uint32_t dims = group.head_dim;
                      HeadMeans mean{std::vector<float>(dims), std::vector<float>(dims)};
                      const uint32_t count = rows.last - rows.first;
                      for (uint32_t d = 0; d < dims; ++d) {
                          double sum_k = 0;
                          double sum_v = 0;
                          for (uint32_t t = 0; t < count; ++t) {
                              sum_k += double{k[size_t{t} * dims + d]};
                              sum_v += double{v[size_t{t} * dims + d]};
                          }
                          mean.k[d] = static_cast<float>(sum_k / count);
                          mean.v[d] = static_cast<float>(sum_v / count);
                      }
                      means[group.layers[rows.layer_in_group]].push_back(std::move(mean));
                  });
    return means;
}

Result<std::vector<EvalRow>> evaluate(const GgufModel& model, const std::vector<TokenId>& text,
                                      const std::vector<std::unique_ptr<Candidate>>& candidates,
                                      const EvalOptions& options) {
    if (text.size() < size_t{options.tokens} + 1)
        return make_error(Code::invalid, fmt::format("the text has {} tokens; {} are needed",
                                                     text.size(), options.tokens + 1));
    if (options.calibration.size() <= kSinkTokens)
        return make_error(Code::invalid, "the calibration text is too short");
    auto means = learn_means(model, options);
    if (!means.ok()) return means.error();
    return Run(text, candidates, *means, options).run(model);
}

}  // namespace quire::bench
