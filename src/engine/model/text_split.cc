#include "engine/model/text_split.h"

#include <algorithm>
#include <functional>

namespace quire {
namespace {

// Short enough for the tokenizer's caches, long enough that the calls cost little.
constexpr size_t kPartBytes = 512;

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_continuation(char c) {
    return (static_cast<uint8_t>(c) & 0xC0) == 0x80;
}

}  // namespace

bool spans_words(std::string_view piece) {
    for (size_t i = 1; i < piece.size(); ++i)
        if (piece[i] == ' ' && is_letter(piece[i - 1])) return true;
    return false;
}

TextSplitter::TextSplitter(std::unordered_map<std::string, TokenId> control, bool cut_words)
    : cut_words_(cut_words) {
    for (auto& [name, token] : control) {
        auto& lengths = lengths_[static_cast<uint8_t>(name[0])];
        if (std::find(lengths.begin(), lengths.end(), name.size()) == lengths.end())
            lengths.push_back(name.size());
        control_.emplace(name, token);
    }
    for (auto& lengths : lengths_) std::sort(lengths.begin(), lengths.end(), std::greater<>());
}

TokenId TextSplitter::match_control(std::string_view rest, size_t* bytes) const {
    for (const size_t n : lengths_[static_cast<uint8_t>(rest[0])]) {
        if (n > rest.size()) continue;
        if (const auto it = control_.find(rest.substr(0, n)); it != control_.end()) {
            *bytes = n;
            return it->second;
        }
    }
    return -1;
}

std::string TextSplitter::disarm(std::string_view text, std::string_view mark) const {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        size_t bytes = 0;
        const bool name = match_control(text.substr(i), &bytes) >= 0;
        do {  // a whole character: text stays UTF-8
            out += text[i++];
        } while (i < text.size() && is_continuation(text[i]));
        if (name) out += mark;
    }
    return out;
}

std::vector<TextPart> TextSplitter::split(std::string_view text, bool special) const {
    std::vector<TextPart> parts;
    size_t start = 0;
    auto close = [&](size_t end) {
        if (end > start) parts.push_back({text.substr(start, end - start)});
        start = end;
    };
    for (size_t i = 0; i < text.size();) {
        size_t bytes = 0;
        if (special && !lengths_[static_cast<uint8_t>(text[i])].empty()) {
            if (const TokenId token = match_control(text.substr(i), &bytes); token >= 0) {
                close(i);
                parts.push_back({text.substr(i, bytes), token});
                i += bytes;
                start = i;
                continue;
            }
        }
        if (cut_words_ && text[i] == ' ' && i - start >= kPartBytes && is_letter(text[i - 1]) &&
            i + 1 < text.size() && is_letter(text[i + 1]))
            close(i);
        ++i;
    }
    close(text.size());
    return parts;
}

}  // namespace quire
