#include "server/openai_logprobs.h"

#include <cmath>
#include <string>
#include <string_view>

namespace quire::server {
namespace {

// JSON has no infinity; a first prompt token has no logprob at all.
OrderedJson logprob_json(float logprob) {
    if (std::isnan(logprob)) return nullptr;
    if (std::isinf(logprob)) return -9999.0;
    return logprob;
}

OrderedJson bytes_json(std::string_view text) {
    OrderedJson bytes = OrderedJson::array();
    for (char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return bytes;
}

OrderedJson entry(const std::string& text, float logprob) {
    return {{"token", text}, {"logprob", logprob_json(logprob)}, {"bytes", bytes_json(text)}};
}

uint64_t characters(std::string_view text) {
    uint64_t count = 0;
    for (char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return count;
}

std::string token_text(const EngineApi& engine, TokenId token) {
    return engine.detokenize(TokenSpan(&token, 1));
}

}  // namespace

OrderedJson chat_logprobs(const EngineApi& engine, const std::vector<TokenLogprob>& tokens) {
    OrderedJson content = OrderedJson::array();
    for (const TokenLogprob& token : tokens) {
        OrderedJson one = entry(token.text, token.logprob);
        one["top_logprobs"] = OrderedJson::array();
        for (const auto& [id, logprob] : token.top) {
            one["top_logprobs"].push_back(entry(token_text(engine, id), logprob));
        }
        content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
}

OrderedJson completion_logprobs(const EngineApi& engine, const std::vector<TokenLogprob>& tokens,
                                uint64_t& first_offset) {
    OrderedJson out = {{"text_offset", OrderedJson::array()},
                       {"token_logprobs", OrderedJson::array()},
                       {"tokens", OrderedJson::array()},
                       {"top_logprobs", OrderedJson::array()}};
    for (const TokenLogprob& token : tokens) {
        out["text_offset"].push_back(first_offset);
        out["token_logprobs"].push_back(logprob_json(token.logprob));
        out["tokens"].push_back(token.text);
        OrderedJson top = OrderedJson::object();
        for (const auto& [id, logprob] : token.top) {
            top[token_text(engine, id)] = logprob_json(logprob);
        }
        const bool none = std::isnan(token.logprob);
        out["top_logprobs"].push_back(none ? OrderedJson(nullptr) : std::move(top));
        first_offset += characters(token.text);
    }
    return out;
}

}  // namespace quire::server
