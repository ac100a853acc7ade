// A model's tokenizer, by libllama loaded for its vocabulary only.
//
// Text is any bytes: invalid UTF-8 is repaired first (utf8.h). No input makes it throw or crash.
// Immutable after open(); any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/types.h"
#include "engine/model/text_split.h"
#include "engine/tokenize_limits.h"

struct llama_model;
struct llama_vocab;

namespace quire {

// libllama is given this much text at once at most; while it is at work it cannot be stopped.
inline constexpr size_t kStretchBytesMax = size_t{1} << 20;

class Vocab {
 public:
    // io, invalid and corrupt as GgufFile::open; unsupported: no tokenizer, or of another kind than
    // llama and gpt2; corrupt: one whose data contradict each other.
    static Result<std::unique_ptr<Vocab>> open(const std::string& gguf_path);
    ~Vocab();
    Vocab(const Vocab&) = delete;
    Vocab& operator=(const Vocab&) = delete;

    int32_t size() const { return static_cast<int32_t>(piece_ends_.size()); }
    // `special`: control tokens written in the text become those tokens, and BOS is put first when
    // the model wants it and the text does not begin with it. Without it the text is only text.
    // invalid: more text than can be tokenized, or more than kStretchBytesMax of it without a place
    // to cut; the code that limits.stop gave.
    // Every `mark` is left out again after control tokens were looked for; empty: there is none.
    Result<std::vector<TokenId>> tokenize(std::string_view text, bool special,
                                          const TokenizeLimits& limits = {},
                                          std::string_view mark = {}) const;
    // `text` in which tokenize() will find no control token. REQUIRES: not in the text: `mark`, not
    // empty, UTF-8.
    std::string disarm(std::string_view text, std::string_view mark) const {
        return splitter_.disarm(text, mark);
    }
    // A text of n tokens has at most n times as many bytes; 0: nothing is known.
    uint32_t longest_token_bytes() const { return longest_token_bytes_; }
    // The bytes that a token adds to the text, maybe not whole UTF-8; empty for control tokens.
    // REQUIRES: 0 <= token < size().
    std::string_view piece(TokenId token) const;
    // The same, but control tokens by their names (<|im_end|>): for logprobs and people.
    std::string label(TokenId token) const;
    // Text of tokens, repaired to UTF-8; control tokens and unknown ids are left out.
    std::string detokenize(TokenSpan tokens) const;

    // Tokens after which generation ends (end of sequence, of turn, of message).
    bool is_end(TokenId token) const;
    bool adds_bos() const;
    TokenId bos() const { return bos_; }  // -1: none
    TokenId eos() const { return eos_; }
    // The model's Jinja chat template; empty: it has none.
    const std::string& chat_template() const { return chat_template_; }

 private:
    Vocab() = default;
    Status load(const std::string& gguf_path);
    void init_pieces();
    void init_splitter();
    void init_longest();
    std::string render(TokenId token, bool special) const;
    Status append_parts(const std::vector<TextPart>& parts, std::string_view mark,
                        const TokenizeLimits& limits, std::vector<TokenId>* out) const;
    Status append_whole(std::string_view text, bool special, std::string_view mark,
                        std::vector<TokenId>* out) const;
    // Appends the tokens of `text` as libllama finds them, BOS and EOS with `special` only.
    Status append(std::string_view text, bool special, std::vector<TokenId>* out) const;

    llama_model* model_ = nullptr;
    const llama_vocab* vocab_ = nullptr;
    TextSplitter splitter_;
    bool split_ = false;                // whether splitter_ fits this tokenizer
    std::string pieces_;                // all pieces, one after the other
    std::vector<uint32_t> piece_ends_;  // [size]
    uint32_t longest_token_bytes_ = 0;
    std::vector<bool> ends_;
    std::string chat_template_;
    TokenId bos_ = -1;
    TokenId eos_ = -1;
};

}  // namespace quire
