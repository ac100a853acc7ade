// Cuts text into parts that can be tokenized one by one with the same result as the whole.
//
// Tokenizers take more than linear time in the length of a text, and look for each of thousands of
// special tokens in all of it. Two kinds of cut change nothing: around special tokens, which are
// tokens wherever they stand, and between a letter, a blank and a letter ("fox| jumps"), where no
// tokenizer's pattern continues, provided that no token of the vocabulary spans a letter and a
// blank. Immutable after construction; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/types.h"

namespace quire {

struct TextPart {
    std::string_view text;
    TokenId special = -1;  // >= 0: the part is this token
};

struct SpecialToken {
    std::string text;
    TokenId token = -1;
    bool always = false;  // found in plain text too, not only where control tokens are looked for
};

class TextSplitter {
 public:
    TextSplitter() = default;
    // tokens: in order of their ids, none empty, no two alike; cut_words: whether cuts between
    // words are safe.
    TextSplitter(std::vector<SpecialToken> tokens, bool cut_words);

    // As libllama finds special tokens: a longer one before a shorter one, whatever their places.
    // Without `special`, only those that are always looked for. Linear in the text, unless two
    // special tokens can overlap.
    std::vector<TextPart> split(std::string_view text, bool special) const;
    // The same as split() but for cuts between words, written for reading: each token in turn is
    // looked for in what those before it left.
    std::vector<TextPart> split_by_rank(std::string_view text, bool special) const;
    // `text` with `mark` after the first character of every control token's name in it, so that
    // split() finds none but those that are always looked for. REQUIRES: `mark` is not part of any
    // name.
    std::string disarm(std::string_view text, std::string_view mark) const;

 private:
    const SpecialToken* match(std::string_view rest, bool special) const;
    bool names_control(std::string_view rest) const;
    std::vector<TextPart> cut_between_words(std::vector<TextPart> parts) const;

    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
    };
    std::vector<SpecialToken> tokens_;                                        // longest first
    std::unordered_map<std::string, size_t, Hash, std::equal_to<>> by_text_;  // into tokens_
    std::array<std::vector<size_t>, 256> lengths_;  // of tokens by first byte, descending
    bool overlap_ = false;
    bool cut_words_ = false;
};

// Whether a piece of a vocabulary spans an ASCII letter and a following blank.
bool spans_words(std::string_view piece);

}  // namespace quire
