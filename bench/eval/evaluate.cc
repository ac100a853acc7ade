#include "bench/eval/evaluate.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"

namespace quire::bench {
namespace {

class Run {
 public:
    Run(const std::vector<TokenId>& text, const std::vector<std::unique_ptr<Candidate>>& candidates,
        const ModelMeans& means, const EvalOptions& options)
        : text_(text), candidates_(candidates), means_(means), options_(options) {}

    Result<std::vector<EvalRow>> run(const GgufModel& model) {
        auto forward = span_forward(model, options_.threads);
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
        if (options_.computed) options_.computed(n);
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
        // Kept for all heads, so that a candidate may look at other layers.
        struct Head {
            std::vector<float> k, v, k_means;
        };
        const std::vector<KvPages::Rows> all = rows_by_layer(pages->layout(), first, last);
        std::vector<Head> heads(all.size());
        std::vector<KvSpan> spans;
        for (size_t i = 0; i < all.size(); ++i) {
            const KvGroup& group = pages->layout().groups[all[i].group];
            const uint32_t layer = group.layers[all[i].layer_in_group];
            Head& head = heads[i];
            head.k.resize(size_t{last - first} * group.head_dim);
            head.v.resize(head.k.size());
            pages->read(all[i], head.k.data(), head.v.data());
            means_.rotate(layer, all[i].head, first, last, &head.k_means);
            spans.push_back({.k = head.k.data(),
                             .v = head.v.data(),
                             .tokens = last - first,
                             .head_dim = group.head_dim,
                             .layer = layer,
                             .head = all[i].head,
                             .first = first,
                             .means = &means_.of(layer, all[i].head),
                             .k_means = head.k_means.data()});
        }
        candidate.apply_all(spans);
        for (size_t i = 0; i < all.size(); ++i)
            pages->write(all[i], heads[i].k.data(), heads[i].v.data());
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

Result<ModelMeans> find_means(const GgufModel& model, const EvalOptions& options) {
    if (options.sidecar != nullptr) {
        QUIRE_TRY(codec::match_sidecar(*options.sidecar, model.id(), model.kv_layout(16)));
        return ModelMeans::from(model, *options.sidecar);
    }
    if (options.calibration.size() <= kSinkTokens)
        return make_error(Code::invalid, "the calibration text is too short");
    return ModelMeans::learn(model, options.calibration, options.threads, options.computed);
}

}  // namespace

uint64_t tokens_to_compute(size_t candidates, const EvalOptions& options) {
    const uint64_t judged = (candidates + 1) * uint64_t{options.tokens};
    return options.sidecar != nullptr ? judged : judged + options.calibration.size();
}

Result<std::vector<EvalRow>> evaluate(const GgufModel& model, const std::vector<TokenId>& text,
                                      const std::vector<std::unique_ptr<Candidate>>& candidates,
                                      const EvalOptions& options) {
    if (text.size() < size_t{options.tokens} + 1)
        return make_error(Code::invalid, fmt::format("the text has {} tokens; {} are needed",
                                                     text.size(), options.tokens + 1));
    auto means = find_means(model, options);
    if (!means.ok()) return means.error();
    return Run(text, candidates, *means, options).run(model);
}

}  // namespace quire::bench
