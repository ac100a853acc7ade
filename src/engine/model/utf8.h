// UTF-8 where bytes come from outside: repair of text, and assembly of whole characters from
// tokens.
//
// Invalid bytes become U+FFFD, one per maximal prefix of a valid sequence (the Unicode standard's
// recommendation). Surrogates, over-long forms and values past U+10FFFF are invalid.
#pragma once

#include <string>
#include <string_view>

namespace quire {

bool is_utf8(std::string_view text);
// `text` with each invalid sequence replaced; text that is valid comes back unchanged.
std::string repair_utf8(std::string_view text);

// Turns a stream of byte pieces, which may end inside a character, into a stream of whole
// characters. Not thread-safe.
class Utf8Assembler {
 public:
    // Returns every character that is complete now; keeps back at most 3 bytes.
    std::string push(std::string_view bytes);
    // Ends the stream: an unfinished character becomes U+FFFD. Ready for a new stream afterwards.
    std::string finish();

 private:
    std::string pending_;
};

}  // namespace quire
