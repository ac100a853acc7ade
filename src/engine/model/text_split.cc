// At each place the longest token that begins there is taken. That finds what libllama finds if no
// token can begin inside another and end after it; tokens of one repeated byte may, because in a
// run of that byte both ways take the longest from the left. Where other tokens overlap (no known
// vocabulary has such) the slow way of split_by_rank is the only one.
#include "engine/model/text_split.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

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

bool is_run(std::string_view text) {
    return text.find_first_not_of(text[0]) == std::string_view::npos;
}

// Whether the end of one token can be the beginning of another, runs of one byte aside.
bool can_overlap(const std::vector<SpecialToken>& tokens) {
    std::unordered_set<std::string_view> begins;
    std::unordered_set<std::string_view> run_begins;
    for (const SpecialToken& token : tokens) {
        auto& into = is_run(token.text) ? run_begins : begins;
        for (size_t n = 1; n < token.text.size(); ++n)
            into.insert(std::string_view(token.text).substr(0, n));
    }
    for (const SpecialToken& token : tokens) {
        const bool run = is_run(token.text);
        for (size_t from = 1; from < token.text.size(); ++from) {
            const std::string_view end = std::string_view(token.text).substr(from);
            if (begins.contains(end) || (!run && run_begins.contains(end))) return true;
        }
    }
    return false;
}

// Cuts every text part of `parts` around the places where `token` stands.
std::vector<TextPart> cut_around(const std::vector<TextPart>& parts, const SpecialToken& token) {
    std::vector<TextPart> out;
    for (const TextPart& part : parts) {
        size_t from = 0;
        for (size_t at = 0; part.special < 0; from = at + token.text.size()) {
            at = part.text.find(token.text, from);
            if (at == std::string_view::npos) break;
            if (at > from) out.push_back({part.text.substr(from, at - from)});
            out.push_back({part.text.substr(at, token.text.size()), token.token});
        }
        if (from < part.text.size()) out.push_back({part.text.substr(from), part.special});
    }
    return out;
}

}  // namespace

bool spans_words(std::string_view piece) {
    for (size_t i = 1; i < piece.size(); ++i)
        if (piece[i] == ' ' && is_letter(piece[i - 1])) return true;
    return false;
}

TextSplitter::TextSplitter(std::vector<SpecialToken> tokens, bool cut_words)
    : tokens_(std::move(tokens)), cut_words_(cut_words) {
    // libllama's own sort, so that tokens of one length come in its order.
    std::sort(tokens_.begin(), tokens_.end(), [](const SpecialToken& a, const SpecialToken& b) {
        return a.text.size() > b.text.size();
    });
    for (size_t i = 0; i < tokens_.size(); ++i) {
        const std::string& text = tokens_[i].text;
        auto& lengths = lengths_[static_cast<uint8_t>(text[0])];
        if (lengths.empty() || lengths.back() != text.size()) lengths.push_back(text.size());
        by_text_.emplace(text, i);
    }
    overlap_ = can_overlap(tokens_);
}

const SpecialToken* TextSplitter::match(std::string_view rest, bool special) const {
    for (const size_t n : lengths_[static_cast<uint8_t>(rest[0])]) {
        if (n > rest.size()) continue;
        const auto it = by_text_.find(rest.substr(0, n));
        if (it != by_text_.end() && (special || tokens_[it->second].always))
            return &tokens_[it->second];
    }
    return nullptr;
}

bool TextSplitter::names_control(std::string_view rest) const {
    for (const size_t n : lengths_[static_cast<uint8_t>(rest[0])]) {
        if (n > rest.size()) continue;
        const auto it = by_text_.find(rest.substr(0, n));
        if (it != by_text_.end() && !tokens_[it->second].always) return true;
    }
    return false;
}

std::string TextSplitter::disarm(std::string_view text, std::string_view mark) const {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        const bool name = names_control(text.substr(i));
        do {  // a whole character: text stays UTF-8
            out += text[i++];
        } while (i < text.size() && is_continuation(text[i]));
        if (name) out += mark;
    }
    return out;
}

std::vector<TextPart> TextSplitter::split(std::string_view text, bool special) const {
    if (overlap_) return cut_between_words(split_by_rank(text, special));
    std::vector<TextPart> parts;
    size_t start = 0;
    for (size_t i = 0; i < text.size();) {
        const SpecialToken* found = match(text.substr(i), special);
        if (found == nullptr) {
            ++i;
            continue;
        }
        if (i > start) parts.push_back({text.substr(start, i - start)});
        parts.push_back({text.substr(i, found->text.size()), found->token});
        i += found->text.size();
        start = i;
    }
    if (start < text.size()) parts.push_back({text.substr(start)});
    return cut_between_words(std::move(parts));
}

std::vector<TextPart> TextSplitter::split_by_rank(std::string_view text, bool special) const {
    std::vector<bool> occurs(tokens_.size());
    for (size_t i = 0; i < text.size(); ++i) {
        for (const size_t n : lengths_[static_cast<uint8_t>(text[i])]) {
            if (n > text.size() - i) continue;
            const auto it = by_text_.find(text.substr(i, n));
            if (it != by_text_.end()) occurs[it->second] = true;
        }
    }
    std::vector<TextPart> parts;
    if (!text.empty()) parts.push_back({text});
    for (size_t i = 0; i < tokens_.size(); ++i)
        if (occurs[i] && (special || tokens_[i].always)) parts = cut_around(parts, tokens_[i]);
    return parts;
}

std::vector<TextPart> TextSplitter::cut_between_words(std::vector<TextPart> parts) const {
    if (!cut_words_) return parts;
    std::vector<TextPart> out;
    out.reserve(parts.size());
    for (const TextPart& part : parts) {
        const std::string_view text = part.text;
        size_t start = 0;
        for (size_t i = kPartBytes; part.special < 0 && i + 1 < text.size(); ++i) {
            if (text[i] != ' ' || i - start < kPartBytes || !is_letter(text[i - 1]) ||
                !is_letter(text[i + 1]))
                continue;
            out.push_back({text.substr(start, i - start)});
            start = i;
        }
        out.push_back({text.substr(start), part.special});
    }
    return out;
}

}  // namespace quire
