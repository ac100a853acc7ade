// Collects the events of all choices of one request and writes OpenAI's answer: whole, or as
// chunks.
//
// One coroutine owns it. Refers to the plan and the engine, which outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/event_queue.h"
#include "server/generation_plan.h"
#include "server/json_text.h"

namespace quire::server {

class Answer {
 public:
    struct Settings {
        std::string id;  // "cmpl-..." or "chatcmpl-..."
        int64_t created_unix_s = 0;
        std::string fingerprint;
        bool hide_reasons = false;  // the tenant may not learn about others' prompts
    };

    Answer(const EngineApi& engine, const GenerationPlan& plan, Settings settings);

    // Takes an event in; an error if it ends its choice badly.
    std::optional<ApiError> add(ChoiceEvent& event);
    // What `add` of this event means to a streaming client, as SSE; empty if nothing. Call after
    // it.
    std::string chunk(const ChoiceEvent& event);
    // SSE before the end of the stream: the usage when it was asked for, then [DONE].
    std::string last_chunks() const;
    // The whole answer as JSON.
    std::string body() const;

    bool finished() const { return open_choices_ == 0; }
    uint32_t choice_count() const { return static_cast<uint32_t>(choices_.size()); }
    uint32_t completion_tokens() const;

 private:
    struct Choice {
        std::string text;
        std::vector<TokenLogprob> logprobs;
        Finish finish = Finish::none;
        RequestTiming timing;
        uint64_t text_offset = 0;  // of the next streamed logprob
        bool started = false;      // a chunk was sent
        bool owes_first_logprob = false;
    };

    void add_first_prompt_token(ChoiceEvent& event);
    void hide_generated(GenerateEvent& event);
    OrderedJson head(const char* object) const;
    OrderedJson logprobs_json(Choice& choice, const std::vector<TokenLogprob>& tokens) const;
    OrderedJson whole_choice(uint32_t index) const;
    OrderedJson chunk_choice(uint32_t index, const GenerateEvent& event);
    OrderedJson usage() const;
    OrderedJson quire() const;
    const std::string& echoed(uint32_t choice) const;

    const EngineApi& engine_;
    const GenerationPlan& plan_;
    Settings settings_;
    std::vector<Choice> choices_;
    uint32_t open_choices_;
};

// "data: <json>\n\n"
std::string sse(const OrderedJson& value);

}  // namespace quire::server
