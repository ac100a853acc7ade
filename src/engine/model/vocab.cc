#include "engine/model/vocab.h"

#include <algorithm>
#include <exception>
#include <limits>

#include <llama.h>

#include "engine/model/ggml_guard.h"
#include "engine/model/gguf_file.h"
#include "engine/model/utf8.h"
#include "engine/model/vocab_check.h"

namespace quire {
namespace {

constexpr size_t kTextMax = size_t{64} << 20;
constexpr size_t kStopBytes = 512;     // tokenized before limits.stop is asked again
constexpr size_t kSpecialsMax = 8192;  // parts of a text that cannot be cut into them

std::string without(std::string_view text, std::string_view mark) {
    std::string out;
    for (size_t from = 0; from <= text.size();) {
        const size_t to = std::min(text.find(mark, from), text.size());
        out += text.substr(from, to - from);
        from = to + mark.size();
    }
    return out;
}

void drop_log(ggml_log_level, const char*, void*) {}

}  // namespace

Result<std::unique_ptr<Vocab>> Vocab::open(const std::string& gguf_path) {
    auto file = GgufFile::open(gguf_path);
    if (!file.ok()) return file.error();
    QUIRE_TRY(check_vocab(**file));
    llama_log_set(drop_log, nullptr);  // errors come back as Results; it would print to stderr
    std::unique_ptr<Vocab> v(new Vocab);
    try {
        const GgmlGuard guard;
        QUIRE_TRY(v->load(gguf_path));
    } catch (const std::exception& e) {
        return make_error(Code::corrupt, gguf_path + ": the vocabulary is damaged (" + e.what() +
                                             "); download it again");
    }
    return v;
}

Status Vocab::load(const std::string& gguf_path) {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    model_ = llama_model_load_from_file(gguf_path.c_str(), params);
    if (model_ == nullptr)
        return make_error(Code::unsupported,
                          gguf_path + ": the tokenizer's data is missing or of an unknown kind");
    vocab_ = llama_model_get_vocab(model_);
    bos_ = llama_vocab_bos(vocab_);
    eos_ = llama_vocab_eos(vocab_);
    if ((adds_bos() && bos_ < 0) || (llama_vocab_get_add_eos(vocab_) && eos_ < 0))
        return make_error(Code::corrupt, gguf_path +
                                             ": the vocabulary lacks the token that it wants "
                                             "before or after a text; convert the model again");
    init_pieces();
    init_splitter();
    init_longest();
    if (const char* text = llama_model_chat_template(model_, nullptr)) chat_template_ = text;
    return {};
}

Vocab::~Vocab() {
    if (model_ != nullptr) llama_model_free(model_);
}

Result<std::vector<TokenId>> Vocab::tokenize(std::string_view text, bool special,
                                             const TokenizeLimits& limits,
                                             std::string_view mark) const {
    if (text.size() > kTextMax)
        return make_error(Code::invalid, "a text of " + std::to_string(text.size()) +
                                             " bytes is too long to tokenize (64 MiB at most)");
    std::string repaired;
    if (!is_utf8(text)) {
        repaired = repair_utf8(text);
        text = repaired;
    }
    std::vector<TokenId> tokens;
    try {
        if (!split_) {
            QUIRE_TRY(append_whole(text, special, mark, &tokens));
            return tokens;
        }
        const std::vector<TextPart> parts = splitter_.split(text, special);
        // Chat templates may write BOS themselves; it is not put twice.
        const bool written = !parts.empty() && parts[0].special == bos_;
        if (special && adds_bos() && !written) tokens.push_back(bos_);
        QUIRE_TRY(append_parts(parts, mark, limits, &tokens));
    } catch (const std::exception& e) {
        return make_error(Code::invalid, std::string("the text cannot be tokenized: ") + e.what());
    }
    return tokens;
}

Status Vocab::append_parts(const std::vector<TextPart>& parts, std::string_view mark,
                           const TokenizeLimits& limits, std::vector<TokenId>* out) const {
    size_t done = 0;
    size_t asked_at = 0;  // bytes done when `stop` was asked
    for (const TextPart& part : parts) {
        if (out->size() > limits.tokens_max) break;
        if (limits.stop && (done == 0 || done - asked_at >= kStopBytes)) {
            asked_at = done;
            if (const Code code = limits.stop(); code != Code::ok)
                return make_error(code, "tokenizing was given up");
        }
        done += part.text.size();
        if (part.special >= 0) {
            out->push_back(part.special);
        } else if (!mark.empty() && part.text.find(mark) != std::string_view::npos) {
            // The mark may have kept tokens from being found that are looked for in any text.
            const std::string clean = without(part.text, mark);
            QUIRE_TRY(append_parts(splitter_.split(clean, false), {}, limits, out));
        } else {
            QUIRE_TRY(append(part.text, false, out));
        }
    }
    return {};
}

// For tokenizers that only libllama can cut. A marked name is cut at its mark, and each half is
// only text; that this may be another cut than the tokenizer's own is the price.
Status Vocab::append_whole(std::string_view text, bool special, std::string_view mark,
                           std::vector<TokenId>* out) const {
    // What libllama does with special tokens is quadratic in their number.
    if (splitter_.split(text, special).size() > kSpecialsMax)
        return make_error(Code::invalid, "the text holds more than " +
                                             std::to_string(kSpecialsMax / 2) +
                                             " special tokens of the model; shorten it");
    const size_t at = mark.empty() ? std::string_view::npos : text.find(mark);
    if (at == std::string_view::npos) return append(text, special, out);
    QUIRE_TRY(append(text.substr(0, at), special, out));
    for (size_t from = at + mark.size(); from <= text.size();) {
        const size_t to = std::min(text.find(mark, from), text.size());
        std::vector<TokenId> more;
        QUIRE_TRY(append(text.substr(from, to - from), special, &more));
        const bool again = special && adds_bos() && !more.empty() && more[0] == bos_;
        out->insert(out->end(), more.begin() + (again ? 1 : 0), more.end());
        from = to + mark.size();
    }
    return {};
}

Status Vocab::append(std::string_view text, bool special, std::vector<TokenId>* out) const {
    if (text.size() > kStretchBytesMax)
        return make_error(Code::invalid,
                          "the text has a stretch of " + std::to_string(text.size()) +
                              " bytes in which no letter, blank and letter follow each other; " +
                              std::to_string(kStretchBytesMax) + " can be tokenized; shorten it");
    const size_t before = out->size();
    size_t room = text.size() + 8;
    for (int attempt = 0; attempt < 2; ++attempt) {
        out->resize(before + room);
        const int32_t n =
            llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()),
                           out->data() + before, static_cast<int32_t>(room), special, special);
        if (n >= 0) {
            out->resize(before + static_cast<size_t>(n));
            return {};
        }
        if (n == std::numeric_limits<int32_t>::min()) break;
        room = static_cast<size_t>(-n);
    }
    return make_error(Code::invalid, "the text cannot be tokenized");
}

void Vocab::init_pieces() {
    const int32_t n = llama_vocab_n_tokens(vocab_);
    for (TokenId t = 0; t < n; ++t) {
        pieces_ += render(t, false);
        piece_ends_.push_back(static_cast<uint32_t>(pieces_.size()));
        ends_.push_back(llama_vocab_is_eog(vocab_, t));
    }
}

void Vocab::init_splitter() {
    const auto type = llama_vocab_type(vocab_);
    // Some tokenizers put a blank before each text they are given; a cut would add another.
    std::vector<TokenId> letter;
    bool cut_words = append("a", false, &letter).ok() && detokenize(letter) == "a";
    std::vector<SpecialToken> special;
    split_ = (type == LLAMA_VOCAB_TYPE_SPM || type == LLAMA_VOCAB_TYPE_BPE) &&
             !llama_vocab_get_add_eos(vocab_);
    constexpr int kStrips = LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP;
    constexpr int kControl = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;
    for (TokenId t = 0; t < size(); ++t) {
        const llama_token_attr attr = llama_vocab_get_attr(vocab_, t);
        if ((attr & kStrips) != 0) split_ = false;
        if ((attr & (kControl | LLAMA_TOKEN_ATTR_USER_DEFINED)) != 0) {
            const char* text = llama_vocab_get_text(vocab_, t);
            if (*text != '\0') special.push_back({text, t, (attr & kControl) == 0});
        } else if (spans_words(piece(t))) {
            cut_words = false;
        }
    }
    splitter_ = TextSplitter(std::move(special), cut_words);
}

void Vocab::init_longest() {
    if (!split_) return;  // others may drop or change text before they look for tokens
    for (TokenId t = 0; t < size(); ++t) {
        const size_t bytes = std::max(piece(t).size(), render(t, true).size());
        longest_token_bytes_ = std::max(longest_token_bytes_, static_cast<uint32_t>(bytes));
    }
}

std::string_view Vocab::piece(TokenId token) const {
    const auto i = static_cast<size_t>(token);
    const uint32_t from = i == 0 ? 0 : piece_ends_[i - 1];
    return std::string_view(pieces_).substr(from, piece_ends_[i] - from);
}

std::string Vocab::render(TokenId token, bool special) const {
    std::string text(64, '\0');
    while (true) {
        const int32_t n = llama_token_to_piece(vocab_, token, text.data(),
                                               static_cast<int32_t>(text.size()), 0, special);
        if (n >= 0) {
            text.resize(static_cast<size_t>(n));
            return text;
        }
        text.resize(static_cast<size_t>(-n));
    }
}

std::string Vocab::label(TokenId token) const {
    return token < 0 || token >= size() ? std::string() : render(token, true);
}

std::string Vocab::detokenize(TokenSpan tokens) const {
    std::string bytes;
    for (const TokenId t : tokens)
        if (t >= 0 && t < size()) bytes += piece(t);
    return repair_utf8(bytes);
}

bool Vocab::is_end(TokenId token) const {
    return token >= 0 && token < size() && ends_[static_cast<size_t>(token)];
}

bool Vocab::adds_bos() const {
    return llama_vocab_get_add_bos(vocab_);
}

}  // namespace quire
