#include "bench/eval/coded_sequence.h"

#include <algorithm>

#include "bench/eval/served.h"

namespace quire::bench {

Result<CodedSequence> CodedSequence::create(Forward* forward, const Candidate* candidate,
                                            const ModelMeans* means, uint32_t tokens,
                                            const ExactTokens& exact) {
    CodedSequence sequence;
    sequence.forward_ = forward;
    if (candidate != nullptr) sequence.served_ = candidate->served();
    if (sequence.served_ != nullptr) {
        auto own = sequence.served_->forward(*forward);
        if (!own.ok()) return own.error();
        sequence.own_ = std::move(own).value();
        sequence.forward_ = sequence.own_.get();
    }
    auto pages = KvPages::create(sequence.forward_->layout(), tokens);
    if (!pages.ok()) return pages.error();
    sequence.candidate_ = candidate;
    sequence.means_ = means;
    sequence.exact_ = exact;
    sequence.pages_ = std::move(pages).value();
    return sequence;
}

Result<std::span<const float>> CodedSequence::step(TokenSpan tokens, uint32_t at,
                                                   uint32_t logit_rows) {
    const StepSequence s =
        pages_.sequence(tokens, static_cast<int32_t>(at), static_cast<int32_t>(logit_rows));
    auto result = forward_->step({&s, 1});
    if (!result.ok()) return result.error();
    const uint32_t end = at + static_cast<uint32_t>(tokens.size());
    if (served_ != nullptr) {
        if (end % kSpanTokens == 0) QUIRE_TRY(served_->settle(&pages_, end / kSpanTokens - 1));
        return result->logits;
    }
    closed_ = std::min(closed_, at);
    if (end % kSpanTokens == 0 && end > exact_.closed_tail()) close(end - exact_.closed_tail());
    return result->logits;
}

Result<uint32_t> CodedSequence::run(
    TokenSpan tokens, uint32_t at, uint32_t judged,
    const std::function<bool(uint32_t, std::span<const float>)>& on_row) {
    const auto all = static_cast<uint32_t>(tokens.size());
    uint32_t done = 0;
    uint32_t told = 0;
    while (done < all) {
        const uint32_t n = std::min(kSpanTokens - (at + done) % kSpanTokens, all - done);
        const uint32_t end = done + n;
        const uint32_t rows = std::min(n, end - std::min(end, all - judged));
        auto logits = step(tokens.subspan(done, n), at + done, rows);
        if (!logits.ok()) return logits.error();
        done = end;
        const size_t vocab = rows == 0 ? 0 : logits->size() / rows;
        for (uint32_t r = 0; r < rows; ++r)
            if (!on_row(told++, logits->subspan(r * vocab, vocab))) return done;
    }
    return done;
}

void CodedSequence::close(uint32_t last) {
    const uint32_t first = std::max(closed_, exact_.sinks);
    closed_ = std::max(closed_, last);
    if (candidate_ == nullptr || first >= last) return;
    // Kept for all heads, so that a candidate may look at other layers.
    struct Head {
        std::vector<float> k, v, k_means;
    };
    const std::vector<KvPages::Rows> all = rows_by_layer(pages_.layout(), first, last);
    std::vector<Head> heads(all.size());
    std::vector<KvSpan> spans;
    for (size_t i = 0; i < all.size(); ++i) {
        const KvGroup& group = pages_.layout().groups[all[i].group];
        const uint32_t layer = group.layers[all[i].layer_in_group];
        Head& head = heads[i];
        head.k.resize(size_t{last - first} * group.head_dim);
        head.v.resize(head.k.size());
        pages_.read(all[i], head.k.data(), head.v.data());
        means_->rotate(layer, all[i].head, first, last, &head.k_means);
        spans.push_back({.k = head.k.data(),
                         .v = head.v.data(),
                         .tokens = last - first,
                         .head_dim = group.head_dim,
                         .layer = layer,
                         .head = all[i].head,
                         .first = first,
                         .means = &means_->of(layer, all[i].head),
                         .k_means = head.k_means.data()});
    }
    candidate_->apply_all(spans);
    for (size_t i = 0; i < all.size(); ++i)
        pages_.write(all[i], heads[i].k.data(), heads[i].v.data());
}

TokenId best_token(std::span<const float> logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace quire::bench
