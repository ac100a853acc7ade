#include "server/openai_prompt.h"

#include <array>
#include <string_view>

namespace quire::server {
namespace {

constexpr size_t kMaxMessages = 16384;

std::optional<std::vector<TokenId>> token_ids(const Json& list) {
    std::vector<TokenId> tokens;
    tokens.reserve(list.size());
    for (const Json& value : list) {
        if (!value.is_number_unsigned()) return std::nullopt;
        const auto id = value.get<uint64_t>();
        if (id > static_cast<uint64_t>(INT32_MAX)) return std::nullopt;
        tokens.push_back(static_cast<TokenId>(id));
    }
    return tokens;
}

std::optional<Prompt> one_prompt(const Json& value) {
    if (value.is_string()) return Prompt(value.get<std::string>());
    if (!value.is_array()) return std::nullopt;
    auto tokens = token_ids(value);
    if (!tokens) return std::nullopt;
    return Prompt(std::move(*tokens));
}

constexpr char kPromptForms[] =
    "a string, a list of strings, a list of token ids or a list of lists of token ids";

// The text of a message's content, or nullopt after reporting why there is none.
std::optional<std::string> content_text(Fields& fields, const std::string& where,
                                        const Json& content) {
    if (content.is_string()) return content.get<std::string>();
    if (content.is_null()) return std::string();
    if (!content.is_array()) {
        fields.fail_type(where, "a string or a list of text parts", content);
        return std::nullopt;
    }
    std::string text;
    for (size_t i = 0; i < content.size(); ++i) {
        const Json& part = content[i];
        const std::string name = where + "[" + std::to_string(i) + "]";
        if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
            fields.fail(name, "'" + name + "' must be {\"type\": \"text\", \"text\": ...}.");
            return std::nullopt;
        }
        if (part["type"] != "text") {
            fields.fail(name,
                        "'" + name + "' has type '" +
                            shorten(part["type"].get_ref<const std::string&>(), 32) +
                            "'; this server takes text only.",
                        "unsupported_content");
            return std::nullopt;
        }
        if (!part.contains("text") || !part["text"].is_string()) {
            fields.fail(name + ".text", "'" + name + ".text' must be a string.");
            return std::nullopt;
        }
        if (i > 0) text += '\n';
        text += part["text"].get_ref<const std::string&>();
    }
    return text;
}

std::string known_role(std::string_view role) {
    constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "tool"};
    if (role == "developer") return "system";  // the newer word for the same thing
    for (std::string_view known : kRoles) {
        if (role == known) return std::string(role);
    }
    return {};
}

}  // namespace

std::vector<Prompt> read_prompts(Fields& fields) {
    std::vector<Prompt> prompts;
    const Json* value = fields.any("prompt");
    if (value == nullptr) {
        fields.fail("prompt", std::string("'prompt' is missing; it must be ") + kPromptForms + ".");
        return prompts;
    }
    const bool many = value->is_array() && !value->empty() && !(*value)[0].is_number();
    if (!many) {
        auto prompt = one_prompt(*value);
        if (prompt) {
            prompts.push_back(std::move(*prompt));
        } else {
            fields.fail_type("prompt", kPromptForms, *value);
        }
        return prompts;
    }
    if (value->size() > kMaxChoices) {
        fields.fail("prompt", "'prompt' lists " + std::to_string(value->size()) +
                                  " prompts; at most " + std::to_string(kMaxChoices) +
                                  " are taken in one request.");
        return prompts;
    }
    for (size_t i = 0; i < value->size(); ++i) {
        auto prompt = one_prompt((*value)[i]);
        if (!prompt) {
            fields.fail_type("prompt[" + std::to_string(i) + "]", "a string or a list of token ids",
                             (*value)[i]);
            return prompts;
        }
        prompts.push_back(std::move(*prompt));
    }
    return prompts;
}

std::vector<ChatMessage> read_messages(Fields& fields) {
    std::vector<ChatMessage> messages;
    const Json* list = fields.any("messages");
    if (list == nullptr || !list->is_array() || list->empty() || list->size() > kMaxMessages) {
        fields.fail("messages", "'messages' must be a list of 1 to " +
                                    std::to_string(kMaxMessages) +
                                    " objects with 'role' and 'content'.");
        return messages;
    }
    for (size_t i = 0; i < list->size(); ++i) {
        const Json& entry = (*list)[i];
        const std::string name = "messages[" + std::to_string(i) + "]";
        if (!entry.is_object() || !entry.contains("role") || !entry["role"].is_string()) {
            fields.fail(name, "'" + name + "' must be an object with 'role' and 'content'.");
            return messages;
        }
        const auto& given = entry["role"].get_ref<const std::string&>();
        const std::string role = known_role(given);
        if (role.empty()) {
            fields.fail(name + ".role", "'" + name + ".role' is '" + shorten(given, 32) +
                                            "'; it must be system, developer, user, assistant or "
                                            "tool.");
            return messages;
        }
        // An assistant's turn may carry no text; anybody else's must.
        const bool has_content = entry.contains("content") && !entry["content"].is_null();
        if (!has_content && role != "assistant") {
            fields.fail(name + ".content", "'" + name + ".content' is missing.");
            return messages;
        }
        const Json content = has_content ? entry["content"] : Json();
        auto text = content_text(fields, name + ".content", content);
        if (!text) return messages;
        messages.push_back({role, std::move(*text)});
    }
    return messages;
}

}  // namespace quire::server
