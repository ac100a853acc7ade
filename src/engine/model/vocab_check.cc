#include "engine/model/vocab_check.h"

#include <string>
#include <unordered_map>

namespace quire {
namespace {

const std::string kPrefix = "tokenizer.ggml.";
// A converter's way to say that there is no such token.
constexpr int64_t kNone = UINT32_MAX;

Error damaged(const GgufFile& file, const std::string& what) {
    return make_error(Code::corrupt,
                      file.path() + ": the vocabulary is damaged: " + what + "; download it again");
}

Status check_kind(const GgufFile& file) {
    const auto kind = file.text(kPrefix + "model");
    if (!kind)
        return make_error(Code::unsupported, file.path() + ": the file has no tokenizer (" +
                                                 kPrefix + "model); convert the model again");
    if (*kind == "llama" || *kind == "gpt2") return {};
    return make_error(Code::unsupported, file.path() + ": the tokenizer '" + *kind +
                                             "' is not supported: llama and gpt2 are");
}

Status check_tokens(const GgufFile& file, const std::vector<std::string>& tokens) {
    std::unordered_map<std::string, size_t> seen;
    seen.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
        // libllama gives an empty token this name.
        const std::string name =
            tokens[i].empty() ? "[EMPTY_" + std::to_string(i) + "]" : tokens[i];
        const auto [it, added] = seen.emplace(name, i);
        if (!added)
            return damaged(file, "tokens " + std::to_string(it->second) + " and " +
                                     std::to_string(i) + " have the same text");
    }
    return {};
}

}  // namespace

Status check_vocab(const GgufFile& file) {
    QUIRE_TRY(check_kind(file));
    const auto tokens = file.texts(kPrefix + "tokens");
    if (!tokens || tokens->empty())
        return make_error(Code::unsupported, file.path() + ": the file has no tokens (" + kPrefix +
                                                 "tokens); convert the model again");
    QUIRE_TRY(check_tokens(file, *tokens));
    for (const char* list : {"scores", "token_type"}) {
        const size_t size = file.array_size(kPrefix + list);
        if (size != 0 && size < tokens->size())
            return damaged(file, std::to_string(tokens->size()) + " tokens, but " +
                                     std::to_string(size) + " in " + kPrefix + list);
    }
    for (const char* token : {"bos", "eos", "eot", "eom"}) {
        const std::string key = kPrefix + token + "_token_id";
        const int64_t id = file.integer(key).value_or(kNone);
        if (id != kNone && (id < 0 || id >= static_cast<int64_t>(tokens->size())))
            return damaged(file, key + " is " + std::to_string(id) + " of " +
                                     std::to_string(tokens->size()) + " tokens");
    }
    return {};
}

}  // namespace quire
