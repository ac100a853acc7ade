// quire_dump_logits MODEL.gguf TEXT_FILE N: the logits of the first N tokens of a text, for
// comparison with another implementation (tests/python/test_logits.py).
//
// Writes to stdout, little-endian: int32 N, int32 n_vocab, int32 token[N], then N rows of n_vocab
// float32.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/model/forward.h"
#include "engine/model/tiny_model.h"
#include "engine/model/vocab.h"

namespace quire {
namespace {

constexpr size_t kChunk = 64;

int fail(const std::string& why) {
    fprintf(stderr, "quire_dump_logits: %s\n", why.c_str());
    return 1;
}

template <typename T>
void write(const T* values, size_t n) {
    if (fwrite(values, sizeof(T), n, stdout) != n) exit(fail("the reader went away"));
}

int dump(const std::string& model_path, const std::string& text_path, size_t n_tokens) {
    auto vocab = Vocab::open(model_path);
    if (!vocab) return fail(vocab.error().message);
    std::ifstream in(text_path, std::ios::binary);
    if (!in) return fail("cannot read " + text_path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    auto tokens = (*vocab)->tokenize(text, true);
    if (!tokens) return fail(tokens.error().message);
    if (tokens->size() < n_tokens)
        return fail(text_path + " has only " + std::to_string(tokens->size()) + " tokens");
    tokens->resize(n_tokens);

    auto model = GgufModel::open(model_path);
    if (!model) return fail(model.error().message);
    auto forward = Forward::create(**model, {.n_threads = 1, .max_rows = kChunk});
    if (!forward) return fail(forward.error().message);
    test::PlainPages pages((*forward)->layout(), static_cast<int32_t>(n_tokens));
    const int32_t header[] = {static_cast<int32_t>(n_tokens), (*model)->hparams().n_vocab};
    write(header, 2);
    write(tokens->data(), n_tokens);
    for (size_t at = 0; at < n_tokens; at += kChunk) {
        const size_t n = std::min(kChunk, n_tokens - at);
        const StepSequence s = pages.sequence(TokenSpan(*tokens).subspan(at, n),
                                              static_cast<int32_t>(at), static_cast<int32_t>(n));
        auto r = (*forward)->step({&s, 1});
        if (!r) return fail(r.error().message);
        write(r->logits.data(), r->logits.size());
    }
    return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
    if (argc != 4) return quire::fail("usage: quire_dump_logits MODEL.gguf TEXT_FILE N");
    return quire::dump(argv[1], argv[2], strtoull(argv[3], nullptr, 10));
}
