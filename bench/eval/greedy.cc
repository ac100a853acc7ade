#include "bench/eval/greedy.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/eval/coded_sequence.h"

namespace quire::bench {
namespace {

std::vector<TokenId> cut_prompt(const std::vector<TokenId>& text, uint32_t i,
                                const GreedyOptions& options) {
    const size_t room = text.size() - options.prompt_tokens;
    const size_t from = options.prompts > 1 ? room * i / (options.prompts - 1) : 0;
    const auto first = text.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<TokenId> prompt(first, first + options.prompt_tokens);
    prompt.front() = text.front();
    return prompt;
}

class Continuations {
 public:
    Continuations(Forward* forward, const ModelMeans& means, const GreedyOptions& options)
        : forward_(forward), means_(means), options_(options) {}

    // The prompt with the tokens that the exact cache gives.
    Result<std::vector<TokenId>> exact(std::vector<TokenId> tokens) {
        auto sequence = make(nullptr);
        if (!sequence.ok()) return sequence.error();
        TokenId best = -1;
        uint32_t at = 0;
        while (tokens.size() < options_.prompt_tokens + options_.tokens) {
            const auto ran = sequence->run(TokenSpan(tokens).subspan(at), at, 1,
                                           [&](uint32_t, std::span<const float> logits) {
                                               best = best_token(logits);
                                               return true;
                                           });
            if (!ran.ok()) return ran.error();
            told(*ran);
            at = static_cast<uint32_t>(tokens.size());
            tokens.push_back(best);
            if (options_.ends && options_.ends(best)) break;
        }
        told(options_.prompt_tokens + options_.tokens - tokens.size());
        return tokens;
    }

    Result<GreedyPrompt> judge(const Candidate& candidate, const std::vector<TokenId>& whole) {
        auto sequence = make(&candidate);
        if (!sequence.ok()) return sequence.error();
        GreedyPrompt out{.tokens = static_cast<uint32_t>(whole.size()) - options_.prompt_tokens};
        // The last token has nothing after it to foretell.
        const auto ran =
            sequence->run(TokenSpan(whole).first(whole.size() - 1), 0, out.tokens,
                          [&](uint32_t i, std::span<const float> logits) {
                              if (best_token(logits) != whole[options_.prompt_tokens + i])
                                  return false;
                              ++out.same;
                              return true;
                          });
        if (!ran.ok()) return ran.error();
        told(per_prompt(options_));
        return out;
    }

    static uint64_t per_prompt(const GreedyOptions& options) {
        return uint64_t{options.prompt_tokens} + options.tokens - 1;
    }

 private:
    Result<CodedSequence> make(const Candidate* candidate) const {
        return CodedSequence::create(forward_, candidate, &means_,
                                     options_.prompt_tokens + options_.tokens, options_.exact);
    }
    void told(uint64_t tokens) const {
        if (options_.computed) options_.computed(tokens);
    }

    Forward* forward_;
    const ModelMeans& means_;
    const GreedyOptions& options_;
};

// Of what differs, by the order of steps; prompts without a difference come last.
std::optional<uint32_t> nth_step(const std::vector<GreedyPrompt>& prompts, size_t n) {
    std::vector<uint32_t> steps;
    for (const GreedyPrompt& p : prompts)
        if (p.same < p.tokens) steps.push_back(p.same);
    if (n >= steps.size()) return std::nullopt;
    std::sort(steps.begin(), steps.end());
    return steps[n];
}

}  // namespace

std::optional<uint32_t> Greedy::median() const {
    return prompts.empty() ? std::nullopt : nth_step(prompts, (prompts.size() - 1) / 2);
}

std::optional<uint32_t> Greedy::earliest() const {
    return nth_step(prompts, 0);
}

uint64_t greedy_tokens(size_t candidates, const GreedyOptions& options) {
    return options.prompts * (candidates + 1) * Continuations::per_prompt(options);
}

Result<std::vector<Greedy>> continue_greedily(
    const GgufModel& model, const std::vector<TokenId>& text,
    const std::vector<std::unique_ptr<Candidate>>& candidates, const ModelMeans& means,
    const GreedyOptions& options) {
    if (options.prompt_tokens < 1 || text.size() < options.prompt_tokens)
        return make_error(
            Code::invalid,
            fmt::format("the text has {} tokens; a prompt of {} cannot be cut from it", text.size(),
                        options.prompt_tokens));
    auto forward = span_forward(model, options.threads);
    if (!forward.ok()) return forward.error();
    Continuations continuations(forward->get(), means, options);
    std::vector<Greedy> out(candidates.size());
    for (uint32_t i = 0; i < options.prompts; ++i) {
        const auto whole = continuations.exact(cut_prompt(text, i, options));
        if (!whole.ok()) return whole.error();
        for (size_t c = 0; c < candidates.size(); ++c) {
            const auto prompt = continuations.judge(*candidates[c], *whole);
            if (!prompt.ok()) return prompt.error();
            out[c].prompts.push_back(*prompt);
        }
    }
    return out;
}

}  // namespace quire::bench
