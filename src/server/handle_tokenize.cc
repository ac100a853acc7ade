// /tokenize and /detokenize, in the shape other servers give them.
#include "server/admin_request.h"
#include "server/generation_plan.h"
#include "server/handlers.h"
#include "server/json_text.h"

namespace quire::server {
namespace {

ApiResult<std::string> tokenize(const EngineApi& engine, std::string_view bytes,
                                const RequestStop& stop) {
    auto body = parse_tokenize(bytes);
    if (!body.ok()) return body.error();
    if (auto error = check_model(engine, body.value().model)) return *error;
    const TokenizeLimits limits{.stop = [&stop] { return stop.code(); }};
    const auto tokens =
        body.value().messages.empty()
            ? engine.tokenize(body.value().prompt, body.value().add_special_tokens, limits)
            : engine.tokenize_chat(body.value().messages, body.value().add_generation_prompt,
                                   limits);
    if (!tokens.ok()) return from_engine(tokens.error());
    OrderedJson out = {{"count", tokens->size()},
                       {"max_model_len", request_tokens_max(engine.model(), engine.model().kv())},
                       {"tokens", *tokens}};
    if (body.value().return_token_strs) {
        out["token_strs"] = OrderedJson::array();
        for (const TokenId& token : *tokens) {
            out["token_strs"].push_back(engine.detokenize(TokenSpan(&token, 1)));
        }
    }
    return dump_json(out);
}

ApiResult<std::string> detokenize(const EngineApi& engine, std::string_view bytes,
                                  const RequestStop&) {
    auto body = parse_detokenize(bytes);
    if (!body.ok()) return body.error();
    if (auto error = check_model(engine, body.value().model)) return *error;
    const auto size = static_cast<TokenId>(engine.model().vocab_size);
    for (TokenId token : body.value().tokens) {
        if (token < size) continue;
        return bad_field("tokens", "'tokens' holds the id " + std::to_string(token) +
                                       "; the vocabulary ends at " + std::to_string(size - 1) +
                                       ".");
    }
    const OrderedJson out = {{"prompt", engine.detokenize(body.value().tokens)}};
    return dump_json(out);
}

using Answerer = ApiResult<std::string> (*)(const EngineApi&, std::string_view, const RequestStop&);

awaitable<void> answer(App& app, Exchange& exchange, Answerer answerer) {
    const auto stop = app.stop_for(exchange.request());
    exchange.watch([stop] { stop->client_left(); });
    auto body = co_await app.workers.run([&]() -> ApiResult<std::string> {
        if (auto error = check_stop(*stop)) return *error;  // it may have waited for a worker
        return answerer(app.engine, exchange.request().body, *stop);
    });
    // Not inside the co_await: g++ 12 destroys temporaries of a conditional there twice.
    HttpReply reply = body.ok() ? json_reply(std::move(body.value())) : error_reply(body.error());
    co_await exchange.reply(std::move(reply));
}

}  // namespace

awaitable<void> handle_tokenize(App& app, Exchange& exchange) {
    return answer(app, exchange, tokenize);
}

awaitable<void> handle_detokenize(App& app, Exchange& exchange) {
    return answer(app, exchange, detokenize);
}

}  // namespace quire::server
