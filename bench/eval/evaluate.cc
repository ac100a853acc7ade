#include "bench/eval/evaluate.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "bench/eval/attention_error.h"
#include "bench/eval/coded_sequence.h"
#include "bench/eval/served.h"

namespace quire::bench {
namespace {

class Run {
 public:
    Run(const GgufModel& model, const std::vector<TokenId>& text,
        const std::vector<std::unique_ptr<Candidate>>& candidates, const ModelMeans& means,
        const EvalOptions& options)
        : text_(text),
          candidates_(candidates),
          means_(means),
          options_(options),
          attention_(static_cast<size_t>(model.hparams().n_layers), candidates.size()),
          tallies_(candidates.size()) {}

    Result<std::vector<EvalRow>> run(const GgufModel& model) {
        auto forward = span_forward(model, options_.threads, nullptr,
                                    options_.layer_errors ? &attention_ : nullptr);
        if (!forward.ok()) return forward.error();
        forward_ = std::move(forward).value();
        // The reference is the last of the sequences.
        for (size_t i = 0; i <= candidates_.size(); ++i) {
            const Candidate* candidate = i < candidates_.size() ? candidates_[i].get() : nullptr;
            auto sequence =
                CodedSequence::create(forward_.get(), candidate, &means_, options_.tokens,
                                      options_.exact);
            if (!sequence.ok()) return sequence.error();
            sequences_.push_back(std::move(sequence).value());
        }
        for (uint32_t at = 0; at < options_.tokens; at += kSpanTokens) {
            QUIRE_TRY(span(at, std::min(kSpanTokens, options_.tokens - at)));
        }
        return rows();
    }

 private:
    bool judged(uint32_t at) const { return at >= options_.tokens / 2; }

    Result<std::span<const float>> step(CodedSequence* sequence, uint32_t at, uint32_t n) {
        auto logits = sequence->step(TokenSpan(text_).subspan(at, n), at, judged(at) ? n : 0);
        if (logits.ok() && options_.computed) options_.computed(n);
        return logits;
    }

    Status span(uint32_t at, uint32_t n) {
        attention_.expect_nothing();
        if (judged(at)) attention_.expect_exact();
        auto exact = step(&sequences_.back(), at, n);
        if (!exact.ok()) return exact.error();
        // The next step overwrites logits.
        reference_.assign(exact->begin(), exact->end());
        const size_t vocab = reference_.size() / n;
        std::vector<LogitRow> rows;
        for (uint32_t r = 0; vocab > 0 && r < n; ++r)
            rows.emplace_back(std::span(reference_).subspan(r * vocab, vocab));
        for (size_t c = 0; c < candidates_.size(); ++c) {
            if (judged(at)) attention_.expect(c);
            auto logits = step(&sequences_[c], at, n);
            if (!logits.ok()) return logits.error();
            for (uint32_t r = 0; r < rows.size(); ++r)
                tallies_[c].add(rows[r], LogitRow(logits->subspan(r * vocab, vocab)),
                                text_[at + r + 1]);
        }
        return {};
    }

    std::vector<EvalRow> rows() const {
        std::vector<EvalRow> out;
        const uint32_t head_dim = forward_->layout().groups[0].head_dim;
        const double n = options_.tokens;
        for (size_t c = 0; c < candidates_.size(); ++c) {
            const double bits = candidates_[c]->bits(head_dim);
            const ServedCache* served = candidates_[c]->served();
            const ExactTokens exact = served != nullptr ? served->exact() : options_.exact;
            out.push_back({.name = candidates_[c]->name(),
                           .reference = candidates_[c]->reference(),
                           .noise_floor = candidates_[c]->noise_floor(),
                           .exact = exact,
                           .bits = bits,
                           .total_bits = (bits * (n - exact.mean()) + 16 * exact.mean()) / n,
                           .divergence = tallies_[c].result(),
                           .layer_errors = {},
                           .schedule = candidates_[c]->schedule(),
                           .greedy = {},
                           .keys = {}});
            if (options_.layer_errors) out.back().layer_errors = attention_.relative_rms(c);
        }
        return out;
    }

    const std::vector<TokenId>& text_;
    const std::vector<std::unique_ptr<Candidate>>& candidates_;
    const ModelMeans& means_;
    const EvalOptions& options_;
    AttentionError attention_;
    std::vector<DivergenceTally> tallies_;
    std::unique_ptr<Forward> forward_;
    std::vector<CodedSequence> sequences_;
    std::vector<float> reference_;
};

}  // namespace

Result<ModelMeans> eval_means(const GgufModel& model, const EvalOptions& options) {
    if (options.sidecar != nullptr) {
        QUIRE_TRY(codec::match_sidecar(*options.sidecar, model.id(), model.kv_layout(16)));
        return ModelMeans::from(model, *options.sidecar);
    }
    if (options.calibration.size() <= kSinkTokens)
        return make_error(Code::invalid, "the calibration text is too short");
    return ModelMeans::learn(model, options.calibration, options.threads, options.computed);
}

uint64_t means_tokens(const EvalOptions& options) {
    return options.sidecar != nullptr ? 0 : options.calibration.size();
}

uint64_t judged_tokens(size_t candidates, const EvalOptions& options) {
    return (candidates + 1) * uint64_t{options.tokens};
}

Status check_text(const GgufModel& model, const std::vector<TokenId>& text,
                  const EvalOptions& options) {
    QUIRE_TRY(check_exact_tokens(options.exact, options.tokens));
    if (text.size() < size_t{options.tokens} + 1)
        return make_error(Code::invalid, fmt::format("the text has {} tokens; {} are needed",
                                                     text.size(), options.tokens + 1));
    const int32_t context = model.hparams().context_tokens;
    if (std::cmp_greater(options.tokens, context))
        return make_error(Code::invalid, fmt::format("{} tokens are past the model's context of {}",
                                                     options.tokens, context));
    return {};
}

Result<std::vector<EvalRow>> evaluate(const GgufModel& model, const std::vector<TokenId>& text,
                                      const std::vector<std::unique_ptr<Candidate>>& candidates,
                                      const ModelMeans& means, const EvalOptions& options) {
    QUIRE_TRY(check_text(model, text, options));
    return Run(model, text, candidates, means, options).run(model);
}

}  // namespace quire::bench
