#include "server/generation_plan.h"

#include <algorithm>
#include <utility>

#include "codec/codec_names.h"
#include "codec/codec_table.h"
#include "server/json_text.h"

namespace quire::server {
namespace {

constexpr uint32_t kDefaultCompletionTokens = 16;  // OpenAI's; a chat answer may fill what is left

const char* prompt_field(const GenerationBody& body) {
    return body.chat ? "messages" : "prompt";
}

uint32_t wanted_tokens(const GenerationBody& body, size_t prompt_tokens, uint32_t tokens_max) {
    if (body.max_tokens) return std::max(1u, *body.max_tokens);  // none: see Answer
    const uint32_t room = tokens_max - static_cast<uint32_t>(prompt_tokens);
    if (body.chat) return room;
    return std::min(room, std::max(kDefaultCompletionTokens, body.min_tokens));
}

std::optional<ApiError> check_context(const GenerationPlan& plan, size_t prompt_tokens,
                                      const ModelInfo& model) {
    const GenerationBody& body = plan.body;
    const uint64_t more = std::max(1u, body.max_tokens.value_or(1));
    if (prompt_tokens + more <= request_tokens_max(model, plan.kv)) return std::nullopt;
    const bool context = prompt_tokens + more > model.context_tokens;
    return bad_field(
        prompt_field(body),
        (context ? "The model's context is " + std::to_string(model.context_tokens)
                 : "The server's --kv-memory holds " + std::to_string(plan.kv.tokens_max)) +
            " tokens, but the request needs " + std::to_string(prompt_tokens + more) + " (" +
            std::to_string(prompt_tokens) + " in the prompt, " + std::to_string(more) +
            " to generate). Shorten the prompt or lower max_tokens" +
            (context ? "." : ", or give the server more --kv-memory."),
        "context_length_exceeded");
}

std::optional<ApiError> check_vocabulary(const EngineApi& engine, const GenerationPlan& plan) {
    const auto size = static_cast<TokenId>(engine.model().vocab_size);
    for (const auto& [id, bias] : plan.body.sampling.logit_bias) {
        if (id < size) continue;
        return bad_field("logit_bias", "'logit_bias' names token " + std::to_string(id) +
                                           "; the vocabulary ends at " + std::to_string(size - 1) +
                                           ".");
    }
    return std::nullopt;
}

// By that name or another of the same codec.
bool is_codec(const std::string& name, const std::string& served) {
    if (name == served) return true;
    const auto spec = codec::find_codec(name);
    return spec.ok() && codec::codec_name(*spec) == served;
}

ApiError over_context(const GenerationBody& body, uint32_t context_tokens, uint64_t text_bytes) {
    return bad_field(prompt_field(body),
                     "The model's context is " + std::to_string(context_tokens) +
                         " tokens, but the prompt of " + std::to_string(text_bytes) +
                         " bytes has more. Shorten it.",
                     "context_length_exceeded");
}

// Tokenizes within what the request may still have: so many tokens that check_context can name an
// ordinary excess, but no more than a few contexts' worth of work.
class Tokenizer {
 public:
    Tokenizer(const EngineApi& engine, const GenerationBody& body, const RequestStop& stop)
        : engine_(engine),
          body_(body),
          limits_{size_t{4} * engine.model().context_tokens, [&stop] { return stop.code(); }} {}

    ApiResult<std::vector<TokenId>> text(std::string_view text) const {
        return bounded(text.size(), [&] { return engine_.tokenize(text, true, limits_); });
    }
    ApiResult<std::vector<TokenId>> chat() const {
        uint64_t bytes = 0;
        for (const ChatMessage& message : body_.messages) bytes += message.content.size();
        return bounded(bytes, [&] {
            return engine_.tokenize_chat(body_.messages, body_.add_generation_prompt, limits_);
        });
    }

 private:
    template <typename Work>
    ApiResult<std::vector<TokenId>> bounded(uint64_t bytes, Work work) const {
        const ModelInfo& model = engine_.model();
        const uint64_t room_bytes = uint64_t{model.context_tokens} * model.longest_token_bytes;
        if (room_bytes > 0 && bytes > room_bytes)
            return over_context(body_, model.context_tokens, bytes);
        auto tokens = work();
        if (!tokens.ok()) {
            ApiError error = from_engine(tokens.error());
            error.param = prompt_field(body_);
            return error;
        }
        if (tokens->size() > limits_.tokens_max)
            return over_context(body_, model.context_tokens, bytes);
        return std::move(tokens).value();
    }

    const EngineApi& engine_;
    const GenerationBody& body_;
    TokenizeLimits limits_;
};

ApiResult<PlannedPrompt> from_text(const Tokenizer& tokenizer, const GenerationBody& body,
                                   const std::string& text) {
    auto tokens = tokenizer.text(text);
    if (!tokens.ok()) return tokens.error();
    return PlannedPrompt{std::move(tokens.value()), body.echo ? text : std::string()};
}

ApiResult<PlannedPrompt> from_tokens(const EngineApi& engine, const GenerationBody& body,
                                     const std::vector<TokenId>& tokens) {
    const auto size = static_cast<TokenId>(engine.model().vocab_size);
    for (TokenId id : tokens) {
        if (id < size) continue;
        return bad_field("prompt", "'prompt' holds token id " + std::to_string(id) +
                                       "; the vocabulary ends at " + std::to_string(size - 1) +
                                       ".");
    }
    PlannedPrompt planned{tokens, {}};
    if (body.echo) planned.text = engine.detokenize(tokens);
    return planned;
}

}  // namespace

ApiResult<const KvCodecInfo*> served_codec(const EngineApi& engine,
                                           const std::optional<std::string>& asked) {
    const std::vector<KvCodecInfo>& served = engine.model().kv_codecs;
    if (!asked) return &served.front();
    std::string names;
    for (const KvCodecInfo& kv : served) {
        if (is_codec(*asked, kv.name)) return &kv;
        names += (names.empty() ? "" : ", ") + kv.name;
    }
    const std::string shown = shorten(*asked, kMaxCodecBytes);
    // What no server takes for pages is not to be looked for in --kv-codec-allow.
    const Status known = codec::check_page_codec(shown);
    const std::string remedy = known.ok()
                                   ? ". --kv-codec-allow names further ones when it starts."
                                   : ": " + known.error().message + ".";
    return bad_field("kv_codec", "'kv_codec' " + shown +
                                     " is not allowed here; this server writes KV in " + names +
                                     (served.size() == 1 ? " only" : "") + remedy);
}

std::optional<ApiError> check_model(const EngineApi& engine, const std::string& asked) {
    const std::string& served = engine.model().name;
    if (asked.empty() || asked == served) return std::nullopt;
    return model_not_found(shorten(asked, 128), served);
}

std::optional<ApiError> check_stop(const RequestStop& stop) {
    const Code code = stop.code();
    if (code == Code::ok) return std::nullopt;
    return from_engine(make_error(code, "the request's time ended before it could be begun"));
}

ApiResult<std::vector<PlannedPrompt>> plan_prompts(const EngineApi& engine,
                                                   const GenerationBody& body,
                                                   const RequestStop& stop) {
    const Tokenizer tokenizer(engine, body, stop);
    std::vector<PlannedPrompt> prompts;
    if (body.chat) {
        auto tokens = tokenizer.chat();
        if (!tokens.ok()) return tokens.error();
        prompts.push_back({std::move(tokens.value()), {}});
    }
    for (const Prompt& prompt : body.prompts) {
        const auto* text = std::get_if<std::string>(&prompt);
        auto planned = text != nullptr
                           ? from_text(tokenizer, body, *text)
                           : from_tokens(engine, body, *std::get_if<std::vector<TokenId>>(&prompt));
        if (!planned.ok()) return planned.error();
        prompts.push_back(std::move(planned.value()));
    }
    for (const PlannedPrompt& prompt : prompts) {
        if (!prompt.tokens.empty()) continue;
        return bad_field(prompt_field(body), std::string("'") + prompt_field(body) +
                                                 "' is empty; it must hold at least one token.");
    }
    return prompts;
}

ApiResult<GenerationPlan> plan_generation(const EngineApi& engine, std::string_view bytes,
                                          bool chat, const RequestStop& stop) {
    if (auto error = check_stop(stop)) return *error;  // it may have waited for a worker
    auto body = chat ? parse_chat(bytes) : parse_completion(bytes);
    if (!body.ok()) return body.error();
    if (auto error = check_model(engine, body.value().model)) return *error;
    const auto kv = served_codec(engine, body.value().kv_codec);
    if (!kv.ok()) return kv.error();
    GenerationPlan plan{std::move(body.value()), *kv.value(), {}};
    if (auto error = check_vocabulary(engine, plan)) return *error;
    auto prompts = plan_prompts(engine, plan.body, stop);
    if (!prompts.ok()) return prompts.error();
    plan.prompts = std::move(prompts.value());
    for (const PlannedPrompt& prompt : plan.prompts) {
        auto error = check_context(plan, prompt.tokens.size(), engine.model());
        if (error) return *error;
    }
    return plan;
}

GenerateRequest engine_request(const GenerationPlan& plan, uint32_t choice, uint32_t tokens_max,
                               uint64_t random_seed) {
    const GenerationBody& body = plan.body;
    GenerateRequest request;
    request.prompt = plan.prompts[choice / body.n].tokens;
    request.max_tokens = wanted_tokens(body, request.prompt.size(), tokens_max);
    request.min_tokens = std::min(body.min_tokens, request.max_tokens);
    request.stop = body.stop;
    request.sampling = body.sampling;
    request.sampling.seed = (body.seeded ? body.sampling.seed : random_seed) + choice % body.n;
    request.cache_salt = body.cache_salt;
    request.kv_codec = plan.kv.name;
    request.prompt_logprobs = body.echo && body.sampling.logprobs >= 0;
    return request;
}

}  // namespace quire::server
