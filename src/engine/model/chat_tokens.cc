#include "engine/model/chat_tokens.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/hash.h"

namespace quire {
namespace {

constexpr int kMarkCharacters = 8;

// Eight of the characters U+FDD0 to U+FDDF, which no text should hold, in an order that these
// messages do not hold. It follows from them, so that equal conversations are treated equally.
std::string mark_for(const std::vector<ChatMessage>& messages) {
    uint64_t seed = 0;
    for (const ChatMessage& message : messages)
        seed = seed * 31 + xxh3_64(std::as_bytes(std::span(message.content)));
    const auto holds = [&](const std::string& mark) {
        return std::any_of(messages.begin(), messages.end(), [&](const ChatMessage& message) {
            return message.role.find(mark) != std::string::npos ||
                   message.content.find(mark) != std::string::npos;
        });
    };
    for (;; ++seed) {
        std::string mark;
        for (int i = 0; i < kMarkCharacters; ++i) {
            mark += "\xEF\xB7";
            mark += static_cast<char>(0x90 + (seed >> (4 * i) & 15));
        }
        if (!holds(mark)) return mark;
    }
}

}  // namespace

Result<std::vector<TokenId>> chat_tokens(const Vocab& vocab, const ChatTemplate& chat,
                                         const std::vector<ChatMessage>& messages,
                                         bool add_generation_prompt, const TokenizeLimits& limits) {
    const std::string mark = mark_for(messages);
    std::vector<ChatMessage> disarmed;
    for (const ChatMessage& message : messages) {
        disarmed.push_back({vocab.disarm(message.role, mark), vocab.disarm(message.content, mark)});
    }
    const auto text = chat.render(disarmed, add_generation_prompt);
    if (!text.ok()) return text.error();
    return vocab.tokenize(*text, true, limits, mark);
}

}  // namespace quire
