#include "bench/eval/own_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/eval/coded_sequence.h"
#include "engine/model/sampler.h"

namespace quire::bench {
namespace {

// Room for prompts, beside as much again as is asked for.
constexpr uint64_t kPromptRoomTokens = 256;

class Writer {
 public:
    Writer(const OwnTextOptions& options, CodedSequence sequence, uint32_t room)
        : options_(options), sequence_(std::move(sequence)), room_(room) {}

    Result<std::vector<TokenId>> write() {
        for (uint64_t round = 0; written_ < options_.tokens; ++round) {
            const auto& prompt = options_.prompts[round % options_.prompts.size()];
            if (text_.size() + prompt.size() > room_)
                return make_error(
                    Code::invalid,
                    fmt::format("the model ends its texts after a few tokens: it wrote {} of {} in "
                                "{} texts; give it a text to be judged on",
                                written_, options_.tokens, round));
            text_.insert(text_.end(), prompt.begin(), prompt.end());
            QUIRE_TRY(go_on(options_.seed + round, prompt));
        }
        return std::move(text_);
    }

 private:
    // Until the model ends the text, or there is enough of it.
    Status go_on(uint64_t seed, const std::vector<TokenId>& prompt) {
        Sampler sampler({.temperature = 1.0f, .seed = seed}, prompt);
        while (written_ < options_.tokens && text_.size() < room_) {
            Result<TokenId> next = make_error(Code::bug, "a step gave no logits");
            const auto ran = sequence_.run(TokenSpan(text_).subspan(done_), done_, 1,
                                           [&](uint32_t, std::span<const float> logits) {
                                               next = sampler.sample(logits, {});
                                               return true;
                                           });
            if (!ran.ok()) return ran.error();
            done_ += *ran;
            if (!next.ok()) return next.error();
            if (options_.ends && options_.ends(*next)) return {};
            sampler.accept(*next);
            text_.push_back(*next);
            ++written_;
            if (options_.computed) options_.computed(1);
        }
        return {};
    }

    const OwnTextOptions& options_;
    CodedSequence sequence_;
    const uint32_t room_;
    std::vector<TokenId> text_;
    uint32_t done_ = 0;  // of the text, that went through the model
    uint32_t written_ = 0;
};

}  // namespace

Result<std::vector<TokenId>> write_own_text(const GgufModel& model, const OwnTextOptions& options) {
    const auto& prompts = options.prompts;
    if (prompts.empty() || std::ranges::any_of(prompts, &std::vector<TokenId>::empty))
        return make_error(Code::invalid, "a text of the model needs a prompt that is not empty");
    const auto context = static_cast<uint64_t>(model.hparams().context_tokens);
    const uint64_t least = prompts.front().size() + uint64_t{options.tokens};
    if (least > context)
        return make_error(Code::invalid,
                          fmt::format("{} tokens and a prompt are past the model's context of {}",
                                      options.tokens, context));
    const auto room = static_cast<uint32_t>(
        std::min(context, 2 * uint64_t{options.tokens} + kPromptRoomTokens));
    auto forward = span_forward(model, options.threads);
    if (!forward.ok()) return forward.error();
    auto sequence = CodedSequence::create(forward->get(), nullptr, nullptr, room);
    if (!sequence.ok()) return sequence.error();
    return Writer(options, std::move(sequence).value(), room).write();
}

}  // namespace quire::bench
