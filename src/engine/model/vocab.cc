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

std::string without(std::string_view text, std::string_view mark) {
    std::string out(text);
    if (mark.empty()) return out;
    for (size_t at = 0; (at = out.find(mark, at)) != std::string::npos;) out.erase(at, mark.size());
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
    if (const char* text = llama_model_chat_template(model_, nullptr)) chat_template_ = text;
    return {};
}

Vocab::~Vocab() {
    if (model_ != nullptr) llama_model_free(model_);
}

Result<std::vector<TokenId>> Vocab::tokenize(std::string_view text, bool special,
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
    bool ok = true;
    try {
        ok = split_ ? append_parts(text, special, mark, &tokens)
                    : append_whole(text, special, mark, &tokens);
    } catch (const std::exception& e) {
        return make_error(Code::invalid, std::string("the text cannot be tokenized: ") + e.what());
    }
    if (!ok) return make_error(Code::invalid, "the text cannot be tokenized");
    return tokens;
}

bool Vocab::append_parts(std::string_view text, bool special, std::string_view mark,
                         std::vector<TokenId>* out) const {
    const std::vector<TextPart> parts = splitter_.split(text, special);
    // Chat templates may write BOS themselves; it is not put twice.
    const bool written = !parts.empty() && parts[0].control == bos_;
    if (special && adds_bos() && !written) out->push_back(bos_);
    for (const TextPart& part : parts) {
        if (part.control >= 0)
            out->push_back(part.control);
        else if (!append(without(part.text, mark), false, out))
            return false;
    }
    return true;
}

// For tokenizers that only libllama can cut. A marked name is cut at its mark, and each half is
// only text; that this may be another cut than the tokenizer's own is the price.
bool Vocab::append_whole(std::string_view text, bool special, std::string_view mark,
                         std::vector<TokenId>* out) const {
    const size_t at = mark.empty() ? std::string_view::npos : text.find(mark);
    if (at == std::string_view::npos) return append(text, special, out);
    if (!append(text.substr(0, at), special, out)) return false;
    for (size_t from = at + mark.size(); from <= text.size();) {
        const size_t to = std::min(text.find(mark, from), text.size());
        std::vector<TokenId> more;
        if (!append(text.substr(from, to - from), special, &more)) return false;
        const bool again = special && adds_bos() && !more.empty() && more[0] == bos_;
        out->insert(out->end(), more.begin() + (again ? 1 : 0), more.end());
        from = to + mark.size();
    }
    return true;
}

bool Vocab::append(std::string_view text, bool special, std::vector<TokenId>* out) const {
    const size_t before = out->size();
    size_t room = text.size() + 8;
    for (int attempt = 0; attempt < 2; ++attempt) {
        out->resize(before + room);
        const int32_t n =
            llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()),
                           out->data() + before, static_cast<int32_t>(room), special, special);
        if (n >= 0) {
            out->resize(before + static_cast<size_t>(n));
            return true;
        }
        if (n == std::numeric_limits<int32_t>::min()) break;
        room = static_cast<size_t>(-n);
    }
    out->resize(before);
    return false;
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
    bool cut_words = append("a", false, &letter) && detokenize(letter) == "a";
    std::unordered_map<std::string, TokenId> control;
    split_ = (type == LLAMA_VOCAB_TYPE_SPM || type == LLAMA_VOCAB_TYPE_BPE) &&
             !llama_vocab_get_add_eos(vocab_);
    constexpr int kStrips = LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP;
    for (TokenId t = 0; t < size(); ++t) {
        const llama_token_attr attr = llama_vocab_get_attr(vocab_, t);
        if ((attr & kStrips) != 0) split_ = false;
        if ((attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0) {
            if (std::string name = render(t, true); !name.empty()) control.emplace(name, t);
        } else if (spans_words(piece(t))) {
            cut_words = false;
        }
    }
    splitter_ = TextSplitter(std::move(control), cut_words);
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
