#include "server/admin_request.h"

#include <optional>

#include "server/json_fields.h"
#include "server/openai_prompt.h"

namespace quire::server {
namespace {

std::optional<Tier> tier_of(const Json& name) {
    if (!name.is_string()) return std::nullopt;
    for (int i = 0; i < kTierCount; ++i) {
        const auto tier = static_cast<Tier>(i);
        if (name.get_ref<const std::string&>() == tier_name(tier)) return tier;
    }
    return std::nullopt;
}

std::vector<Tier> read_tiers(Fields& fields) {
    std::vector<Tier> tiers;
    const Json* list = fields.any("tiers");
    if (list == nullptr) return tiers;
    constexpr char kWanted[] = "a list of at most 5 of \"g1\", \"g2\", \"g3\", \"g3.5\", \"g4\"";
    if (!list->is_array() || list->size() > kTierCount) {
        fields.fail_type("tiers", kWanted, *list);
        return tiers;
    }
    for (const Json& name : *list) {
        const auto tier = tier_of(name);
        if (!tier) {
            fields.fail_type("tiers", kWanted, name);
            return tiers;
        }
        tiers.push_back(*tier);
    }
    return tiers;
}

}  // namespace

ApiResult<TokenizeBody> parse_tokenize(std::string_view bytes) {
    auto json = parse_json_object(bytes);
    if (!json.ok()) return json.error();
    Fields fields(json.value());
    TokenizeBody body;
    body.model = fields.text("model", 1024).value_or("");
    if (fields.any("messages") != nullptr) {
        body.messages = read_messages(fields);
    } else if (auto prompt = fields.text("prompt", SIZE_MAX)) {
        body.prompt = std::move(*prompt);
    } else {
        fields.fail("prompt", "'prompt' (a string) or 'messages' is missing.");
    }
    body.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
    body.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    body.return_token_strs = fields.boolean("return_token_strs").value_or(false);
    if (fields.error()) return *fields.error();
    return body;
}

ApiResult<DetokenizeBody> parse_detokenize(std::string_view bytes) {
    auto json = parse_json_object(bytes);
    if (!json.ok()) return json.error();
    Fields fields(json.value());
    DetokenizeBody body;
    body.model = fields.text("model", 1024).value_or("");
    const Json* tokens = fields.any("tokens");
    if (tokens == nullptr || !tokens->is_array()) {
        fields.fail("tokens", "'tokens' must be a list of token ids.");
        return *fields.error();
    }
    for (const Json& token : *tokens) {
        const bool is_id = token.is_number_unsigned() && token.get<uint64_t>() <= INT32_MAX;
        if (!is_id) {
            fields.fail_type("tokens", "a list of token ids", token);
            break;
        }
        body.tokens.push_back(token.get<TokenId>());
    }
    if (fields.error()) return *fields.error();
    return body;
}

ApiResult<GenerationBody> parse_explain(std::string_view bytes) {
    auto json = parse_json_object(bytes);
    if (!json.ok()) return json.error();
    return json.value().contains("messages") ? parse_chat(bytes) : parse_completion(bytes);
}

ApiResult<FlushBody> parse_flush(std::string_view bytes) {
    if (bytes.empty()) return FlushBody{};
    auto json = parse_json_object(bytes);
    if (!json.ok()) return json.error();
    Fields fields(json.value());
    FlushBody body;
    body.tiers = read_tiers(fields);
    body.write_back = fields.boolean("write_back").value_or(false);
    const auto unknown = fields.unknown();
    // A misspelt field of a destructive request must not mean "everything".
    if (!unknown.empty()) {
        fields.fail(unknown.front(),
                    "'" + unknown.front() + "' is not known; use 'tiers' and 'write_back'.");
    }
    if (fields.error()) return *fields.error();
    return body;
}

}  // namespace quire::server
