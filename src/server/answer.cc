#include "server/answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/openai_logprobs.h"
#include "server/timing_json.h"

namespace quire::server {
namespace {

OrderedJson finish_json(Finish finish) {
    if (finish == Finish::stop) return "stop";
    if (finish == Finish::length) return "length";
    return nullptr;
}

// The error that an event ends its choice with, if it does.
std::optional<ApiError> failure(const GenerateEvent& event) {
    switch (event.finish) {
        case Finish::none:
        case Finish::stop:
        case Finish::length:
            return std::nullopt;
        case Finish::cancelled:
            return draining_error();
        case Finish::timeout:
            return from_engine(event.error.value_or(
                make_error(Code::timeout, "The request took longer than the server allows.")));
        case Finish::error:
            break;
    }
    return from_engine(
        event.error.value_or(make_error(Code::bug, "The engine failed without saying why.")));
}

}  // namespace

std::string sse(const OrderedJson& value) {
    return "data: " + dump_json(value) + "\n\n";
}

Answer::Answer(const EngineApi& engine, const GenerationPlan& plan, Settings settings)
    : engine_(engine),
      plan_(plan),
      settings_(std::move(settings)),
      choices_(plan.prompts.size() * plan.body.n),
      open_choices_(static_cast<uint32_t>(choices_.size())) {
    for (uint32_t i = 0; i < choices_.size(); ++i) {
        choices_[i].text = echoed(i);
        choices_[i].owes_first_logprob = plan.body.echo && plan.body.sampling.logprobs >= 0;
    }
}

// Nothing predicts a prompt's first token; clients expect it in the list all the same, with null.
void Answer::add_first_prompt_token(ChoiceEvent& event) {
    Choice& choice = choices_[event.choice];
    const bool ends = event.event.finish == Finish::length || event.event.finish == Finish::stop;
    if (!choice.owes_first_logprob || (event.event.logprobs.empty() && !ends)) return;
    choice.owes_first_logprob = false;
    const TokenId first = plan_.prompts[event.choice / plan_.body.n].tokens.front();
    TokenLogprob entry{first,
                       engine_.detokenize(TokenSpan(&first, 1)),
                       std::numeric_limits<float>::quiet_NaN(),
                       {}};
    event.event.logprobs.insert(event.event.logprobs.begin(), std::move(entry));
}

// An engine generates at least one token; a client that wants none (echo alone) must not see it.
void Answer::hide_generated(GenerateEvent& event) {
    if (plan_.body.max_tokens != 0u) return;
    event.text.clear();
    event.timing.completion_tokens = 0;
    if (event.finish != Finish::none && !event.logprobs.empty()) event.logprobs.pop_back();
}

const std::string& Answer::echoed(uint32_t choice) const {
    return plan_.prompts[choice / plan_.body.n].text;
}

std::optional<ApiError> Answer::add(ChoiceEvent& event) {
    Choice& choice = choices_[event.choice];
    hide_generated(event.event);
    add_first_prompt_token(event);
    if (!plan_.body.stream) {
        choice.text += event.event.text;
        std::move(event.event.logprobs.begin(), event.event.logprobs.end(),
                  std::back_inserter(choice.logprobs));
    }
    if (event.event.finish == Finish::none) return std::nullopt;
    if (settings_.hide_reasons) {
        event.event.timing.miss_reason = visible_reason(event.event.timing.miss_reason);
    }
    choice.finish = event.event.finish;
    choice.timing = event.event.timing;
    --open_choices_;
    return failure(event.event);
}

OrderedJson Answer::head(const char* object) const {
    return {{"id", settings_.id},
            {"object", object},
            {"created", settings_.created_unix_s},
            {"model", engine_.model().name},
            {"system_fingerprint", settings_.fingerprint}};
}

OrderedJson Answer::logprobs_json(Choice& choice, const std::vector<TokenLogprob>& tokens) const {
    if (plan_.body.sampling.logprobs < 0) return nullptr;
    if (plan_.body.chat) return chat_logprobs(engine_, tokens);
    return completion_logprobs(engine_, tokens, choice.text_offset);
}

OrderedJson Answer::whole_choice(uint32_t index) const {
    Choice choice = choices_[index];  // a copy: counting offsets changes it
    OrderedJson out = {{"index", index}};
    if (plan_.body.chat) {
        out["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    } else {
        out["text"] = choice.text;
    }
    out["logprobs"] = logprobs_json(choice, choice.logprobs);
    out["finish_reason"] = finish_json(choice.finish);
    return out;
}

std::string Answer::body() const {
    OrderedJson out = head(plan_.body.chat ? "chat.completion" : "text_completion");
    out["choices"] = OrderedJson::array();
    for (uint32_t i = 0; i < choices_.size(); ++i) out["choices"].push_back(whole_choice(i));
    out["usage"] = usage();
    out["quire"] = quire();
    return dump_json(out);
}

OrderedJson Answer::chunk_choice(uint32_t index, const GenerateEvent& event) {
    Choice& choice = choices_[index];
    OrderedJson out = {{"index", index}};
    if (plan_.body.chat) {
        OrderedJson delta = OrderedJson::object();
        if (!choice.started) delta["role"] = "assistant";
        if (!choice.started || !event.text.empty()) delta["content"] = event.text;
        out["delta"] = std::move(delta);
    } else {
        out["text"] = choice.started ? event.text : echoed(index) + event.text;
    }
    choice.started = true;
    out["logprobs"] =
        event.logprobs.empty() ? OrderedJson(nullptr) : logprobs_json(choice, event.logprobs);
    out["finish_reason"] = finish_json(event.finish);
    return out;
}

std::string Answer::chunk(const ChoiceEvent& event) {
    const GenerateEvent& e = event.event;
    // A token that ends inside a character shows nothing yet.
    const bool silent = e.text.empty() && e.logprobs.empty() && e.finish == Finish::none;
    if (silent && choices_[event.choice].started) return {};
    OrderedJson out = head(plan_.body.chat ? "chat.completion.chunk" : "text_completion");
    out["choices"] = OrderedJson::array({chunk_choice(event.choice, e)});
    if (plan_.body.include_usage) out["usage"] = nullptr;
    if (finished() && !plan_.body.include_usage) out["quire"] = quire();
    return sse(out);
}

std::string Answer::last_chunks() const {
    std::string bytes;
    if (plan_.body.include_usage) {
        OrderedJson out = head(plan_.body.chat ? "chat.completion.chunk" : "text_completion");
        out["choices"] = OrderedJson::array();
        out["usage"] = usage();
        out["quire"] = quire();
        bytes = sse(out);
    }
    return bytes + "data: [DONE]\n\n";
}

uint32_t Answer::completion_tokens() const {
    uint32_t tokens = 0;
    for (const Choice& choice : choices_) tokens += choice.timing.completion_tokens;
    return tokens;
}

OrderedJson Answer::usage() const {
    // A prompt counts once, however many choices continue it, and as cached only what every one of
    // its choices found.
    uint64_t prompt_tokens = 0;
    uint64_t cached = 0;
    for (size_t p = 0; p < plan_.prompts.size(); ++p) {
        prompt_tokens += plan_.prompts[p].tokens.size();
        uint32_t least = UINT32_MAX;
        for (uint32_t i = 0; i < plan_.body.n; ++i) {
            least = std::min(least, cached_tokens(choices_[p * plan_.body.n + i].timing));
        }
        cached += least;
    }
    const uint64_t completion = completion_tokens();
    return {{"prompt_tokens", prompt_tokens},
            {"completion_tokens", completion},
            {"total_tokens", prompt_tokens + completion},
            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

OrderedJson Answer::quire() const {
    std::vector<RequestTiming> timings;
    for (const Choice& choice : choices_) timings.push_back(choice.timing);
    return quire_json(timings, plan_.body.ignored_fields);
}

}  // namespace quire::server
