#include "bench/eval/keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rng.h"
#include "bench/eval/coded_sequence.h"

namespace quire::bench {
namespace {

constexpr const char* kQuestion = "\n\nThe pass key is";

struct Key {
    std::vector<TokenId> planted;
    std::vector<TokenId> asked;  // the question and its answer
    uint32_t answer_tokens = 0;  // of them
};

// The answer begins after what the question without one has in common with it.
Result<Key> make_key(const Tokenize& tokenize, uint64_t number) {
    const std::string asked = fmt::format("{} {}", kQuestion, number);
    auto planted = tokenize(asked + ".\n\n");
    if (!planted.ok()) return planted.error();
    const auto question = tokenize(kQuestion);
    if (!question.ok()) return question.error();
    auto whole = tokenize(asked);
    if (!whole.ok()) return whole.error();
    const auto end =
        std::mismatch(whole->begin(), whole->end(), question->begin(), question->end()).first;
    const auto answer = static_cast<uint32_t>(whole->end() - end);
    if (answer == 0 || answer == whole->size())
        return make_error(Code::unsupported, "the tokenizer leaves nothing of a key to be asked");
    return Key{std::move(planted).value(), std::move(whole).value(), answer};
}

// The text's first token, `filler` tokens in all from `from` on, the key after `before` of them.
KeyText plant(const std::vector<TokenId>& text, size_t from, size_t before, size_t filler,
              const Key& key) {
    const auto at = [&](size_t i) { return text.begin() + static_cast<std::ptrdiff_t>(i); };
    KeyText out{
        .depth = static_cast<double>(before) / static_cast<double>(filler + key.planted.size()),
        .tokens = {at(from), at(from + before)},
        .answer_tokens = key.answer_tokens};
    out.tokens.front() = text.front();
    out.tokens.insert(out.tokens.end(), key.planted.begin(), key.planted.end());
    out.tokens.insert(out.tokens.end(), at(from + before), at(from + filler));
    out.tokens.insert(out.tokens.end(), key.asked.begin(), key.asked.end());
    return out;
}

Result<bool> ask(CodedSequence* sequence, const KeyText& text) {
    uint32_t same = 0;
    const size_t answer = text.tokens.size() - text.answer_tokens;
    const auto ran =
        sequence->run(TokenSpan(text.tokens).first(text.tokens.size() - 1), 0, text.answer_tokens,
                      [&](uint32_t i, std::span<const float> logits) {
                          if (best_token(logits) != text.tokens[answer + i]) return false;
                          ++same;
                          return true;
                      });
    if (!ran.ok()) return ran.error();
    return same == text.answer_tokens;
}

}  // namespace

Result<std::vector<KeyText>> plant_keys(const std::vector<TokenId>& text, const Tokenize& tokenize,
                                        const KeyOptions& options) {
    const size_t tokens = options.tokens / kSpanTokens * kSpanTokens;
    std::vector<KeyText> out;
    Rng random(options.seed);
    for (uint32_t i = 0; i < options.keys; ++i) {
        const auto key = make_key(tokenize, 10000 + random.below(90000));
        if (!key.ok()) return key.error();
        const size_t least = std::max(options.exact.sinks, kSinkTokens);
        const size_t tail = options.exact.closed_tail();
        if (tokens < key->planted.size() + 2 * least + tail || text.size() < tokens)
            return make_error(
                Code::invalid,
                fmt::format("keys cannot be planted in {} tokens of a text of {} with {} sinks and "
                            "a tail of {}: take more --key-tokens; --keys 0 plants none",
                            options.tokens, text.size(), options.exact.sinks, options.exact.tail));
        const size_t filler = tokens - key->planted.size();
        const size_t room = text.size() - filler;
        const size_t from = options.keys > 1 ? room * i / (options.keys - 1) : 0;
        const size_t depth = filler * (2 * size_t{i} + 1) / (2 * size_t{options.keys});
        out.push_back(plant(text, from, std::clamp(depth, least, filler - tail), filler, *key));
    }
    return out;
}

uint64_t key_tokens(size_t candidates, const std::vector<KeyText>& texts) {
    uint64_t tokens = 0;
    for (const KeyText& text : texts) tokens += text.tokens.size() - 1;
    return (candidates + 1) * tokens;
}

Result<FoundKeys> find_keys(const GgufModel& model, const std::vector<KeyText>& texts,
                            const std::vector<std::unique_ptr<Candidate>>& candidates,
                            const ModelMeans& means, uint32_t threads,
                            const std::function<void(uint64_t)>& computed,
                            const ExactTokens& exact) {
    auto forward = span_forward(model, threads);
    if (!forward.ok()) return forward.error();
    FoundKeys out{.exact = {}, .candidates = std::vector<std::vector<bool>>(candidates.size())};
    for (const KeyText& text : texts) {
        for (size_t i = 0; i <= candidates.size(); ++i) {
            const Candidate* candidate = i < candidates.size() ? candidates[i].get() : nullptr;
            auto sequence = CodedSequence::create(forward->get(), candidate, &means,
                                                  static_cast<uint32_t>(text.tokens.size()), exact);
            if (!sequence.ok()) return sequence.error();
            const auto found = ask(&*sequence, text);
            if (!found.ok()) return found.error();
            (candidate == nullptr ? out.exact : out.candidates[i]).push_back(*found);
            if (computed) computed(text.tokens.size() - 1);
        }
    }
    return out;
}

}  // namespace quire::bench
