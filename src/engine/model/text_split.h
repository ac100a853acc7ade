// Cuts text into parts that can be tokenized one by one with the same result as the whole.
//
// Tokenizers take more than linear time in the length of a text, and look for each of thousands of
// control tokens in all of it. Two kinds of cut change nothing: around control tokens, which are
// tokens wherever they stand, and between a letter, a blank and a letter ("fox| jumps"), where no
// tokenizer's pattern continues, provided that no token of the vocabulary spans a letter and a
// blank.
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
    TokenId control = -1;  // >= 0: the part is this token
};

class TextSplitter {
 public:
    TextSplitter() = default;
    // control: names of control tokens, none empty; cut_words: whether cuts between words are safe.
    TextSplitter(std::unordered_map<std::string, TokenId> control, bool cut_words);

    // With `special`, control tokens become parts of their own, the longest where several match.
    std::vector<TextPart> split(std::string_view text, bool special) const;
    // `text` with `mark` after the first character of every control token's name in it, so that
    // split() finds none. REQUIRES: `mark` is not part of any name.
    std::string disarm(std::string_view text, std::string_view mark) const;

 private:
    TokenId match_control(std::string_view rest, size_t* bytes) const;

    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
    };
    std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> control_;
    std::array<std::vector<size_t>, 256> lengths_;  // of control tokens by first byte, descending
    bool cut_words_ = false;
};

// Whether a piece of a vocabulary spans an ASCII letter and a following blank.
bool spans_words(std::string_view piece);

}  // namespace quire
